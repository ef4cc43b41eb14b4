import type { IdempotencyMeter } from '../core/meter/idempotency-meter.js';
import type { OperationReading } from '../core/meter/meter-reading.js';
import type { RecordList } from '../nest/idempotency-records.js';
import { html, type Html, type HtmlValue } from './html.js';
import type { RecentEvents } from './recent-events.js';
import { textOfMs } from '../core/operator/text-of-ms.js';
import { factList, page, recordLink, table, time, type Facts, type Frame } from './layout.js';

const SHOWN = 20;

/** Between two looks of a page that looks by itself. */
export const LIVE_SECONDS = 10;

/** What this process does now, and a look at what others have left behind. */
export function nowPage(
  frame: Frame,
  meter: Pick<IdempotencyMeter, 'read' | 'running'>,
  recent: Pick<RecentEvents, 'incidents' | 'round'>,
  abandoned: RecordList | string,
  isLive: boolean,
): Html {
  const incidents = recent.incidents();
  const { operations, store } = meter.read();
  const running = [...meter.running()].sort((one, other) => other.elapsedMs - one.elapsedMs);
  const waiting = Array.from(operations.values(), (operation) => operation.waiting);
  const facts: Facts = [
    ['Running in this process', running.length],
    ['Waiting in this process', sum(waiting)],
    ['Abandoned in the store', abandonedIn(frame.root, abandoned)],
    ['Left by the reconciler', leftIn(frame.root, recent.round())],
    ['Incidents in this process', sum(Array.from(operations.values(), incidentsOf))],
    ['Store', `${store.system}${store.breaker === undefined ? '' : `, breaker ${store.breaker}`}`],
    ['Last failure of the store', failureOf(store.lastFailure)],
  ];
  return page(frame, 'now', 'Now', [
    html`${factList(facts)}
      <p>
        <a href="${frame.root}now">${isLive ? 'Stop looking by itself' : 'Look again'}</a>
        ${!isLive && html`<a href="${frame.root}now?every=${LIVE_SECONDS}">Look every ${LIVE_SECONDS} s</a>`}
      </p>`,
    running.length > 0 &&
      table(
        `The longest running attempts in this process`,
        ['Operation', 'Attempt', 'For', 'Lease', 'Record'],
        running
          .slice(0, SHOWN)
          .map(({ operation, attempt, elapsedMs, leaseLeftMs, recordKey }) => [
            html`<bdi>${operation}</bdi>`,
            attempt,
            textOfMs(Math.round(elapsedMs)),
            leaseLeftMs === undefined ? 'none' : `${textOfMs(Math.round(leaseLeftMs))} left`,
            recordLink(frame.root, recordKey),
          ]),
      ),
    table(
      'Operations in this process, since it started',
      [
        'Operation',
        'Executed',
        'Replayed',
        'Rejected',
        'Takeovers',
        'Incidents',
        'Running',
        'Waiting',
      ],
      [...operations]
        .sort(([, one], [, other]) => incidentsOf(other) - incidentsOf(one))
        .map(([name, operation]) => [html`<bdi>${name}</bdi>`, ...countsOf(operation)]),
    ),
    incidents.length > 0 &&
      table(
        'Latest incidents in this process',
        ['When', 'What', 'Operation', 'Record'],
        incidents
          .slice(0, SHOWN)
          .map(({ at, type, detail, operation, recordKey }) => [
            time(at),
            detail === undefined ? type : `${type} (${detail})`,
            operation !== undefined && html`<bdi>${operation}</bdi>`,
            recordKey !== undefined && recordLink(frame.root, recordKey),
          ]),
      ),
  ]);
}

function abandonedIn(root: string, abandoned: RecordList | string): HtmlValue {
  if (typeof abandoned === 'string') return abandoned;
  const { records, scanned, cursor } = abandoned;
  const count = cursor === undefined ? String(records.length) : `${String(records.length)} or more`;
  return html`<a href="${root}abandoned">${count}</a>, of ${scanned} records looked at`;
}

/** What its latest round could not decide: only its event says so. */
function leftIn(root: string, round: ReturnType<RecentEvents['round']>): HtmlValue {
  if (round === undefined) return 'no round in this process';
  const { unknown, failed } = round.report;
  return html`<a href="${root}abandoned">${unknown}</a>, of no operation with “onTakeover” here;
    ${failed} whose “onTakeover” failed; ${time(round.at)}`;
}

function failureOf(
  failure: { readonly at: number; readonly errorType: string } | undefined,
): HtmlValue {
  return failure === undefined ? 'none' : [failure.errorType, ', ', time(new Date(failure.at))];
}

function countsOf(operation: OperationReading): number[] {
  const results = Object.values(operation.requests).flatMap((counts) => Object.entries(counts));
  const of = (wanted: (result: string) => boolean) =>
    sum(results.filter(([result]) => wanted(result)).map(([, count]) => count));
  const ran = (result: string) =>
    result === 'executed' || result === 'recovered' || result.startsWith('unprotected');
  return [
    of(ran),
    of((result) => result === 'replayed'),
    of((result) => !ran(result) && result !== 'replayed'),
    operation.takeovers,
    incidentsOf(operation),
    operation.running,
    operation.waiting,
  ];
}

function incidentsOf({ incidents }: OperationReading): number {
  return sum(Object.values(incidents));
}

function sum(counts: readonly number[]): number {
  return counts.reduce((total, count) => total + count, 0);
}
