import { agoOf, type RecordSheet } from '../core/operator/record-sheet.js';
import type { AttemptAnnotations } from '../core/record/annotations.js';
import { textOfMs } from '../core/operator/text-of-ms.js';
import { html, type Html, type HtmlValue } from './html.js';
import type { SeenEvent } from './recent-events.js';
import { time } from './layout.js';

/** A time on the axis. */
interface Mark {
  readonly at: number;
  readonly kind: 'began' | 'lease' | 'event' | 'now';
  readonly says: HtmlValue;
}

/** An attempt on the axis. */
interface Span {
  readonly attempt: number;
  readonly from: number;
  /** Until when it is known to have had the record. */
  readonly to: number;
}

/** Of the picture, which has no unit of its own. */
const WIDTH = 1_000;
const ROW = 24;

/** As many attempts as a page can show. */
const MAX_ROWS = 12;

const ENDS: readonly SeenEvent['type'][] = [
  'completed',
  'released',
  'superseded',
  'outcome_diverged',
  'record_lost',
];

/**
 * The life of a record on one line of time: what the store says of its attempts, and what this process has seen. A heartbeat
 * is no event: it moves the end of the lease.
 * @param now - by the process' clock, as those of the events.
 */
export function axis(
  { record, annotations }: RecordSheet,
  events: readonly SeenEvent[],
  now: number,
): Html {
  const { state, attempt, ageMs, leaseLeftMs, retentionLeftMs } = record;
  const { tookMs } = annotations;
  const began = now - ageMs;
  const leaseEnd = leaseLeftMs === undefined ? undefined : now + leaseLeftMs;
  const current = {
    attempt,
    from: began,
    to:
      leaseEnd !== undefined
        ? Math.min(now, leaseEnd)
        : tookMs === undefined
          ? endOf(attempt, events, began)
          : began + tookMs,
  };
  const told = annotations.earlier.map((each, at) => ({
    ...each,
    attempt: attempt - 1 - at,
    from: now - agoOf(record, each.beganAt),
  }));
  const areTold = new Set(told.map((each) => each.attempt));
  const spans = [
    ...told.map((each) => ({ ...each, to: each.from + (each.tookMs ?? 0) })),
    ...earlier(events, attempt).filter((each) => !areTold.has(each.attempt)),
    current,
  ]
    .sort((one, other) => one.attempt - other.attempt)
    .slice(-MAX_ROWS);
  const marks: readonly Mark[] = [
    ...[...told, { ...annotations, attempt, from: began, end: undefined }].flatMap(marksOf),
    ...events
      .filter(
        (event) =>
          event.type !== 'acquired' ||
          (event.attempt !== attempt && !areTold.has(event.attempt ?? 0)),
      )
      .map((event) => ({ at: event.at.getTime(), kind: 'event' as const, says: wordsOf(event) })),
    ...(leaseEnd === undefined
      ? []
      : [{ at: leaseEnd, kind: 'lease' as const, says: leaseWords(now, leaseEnd) }]),
    {
      at: now,
      kind: 'now' as const,
      says: `now: ${state}, kept for another ${textOfMs(retentionLeftMs)}`,
    },
  ].sort((one, other) => one.at - other.at);
  const times = [...marks.map(({ at }) => at), ...spans.map(({ from }) => from)];
  const first = Math.min(...times);
  const length = Math.max(1, Math.max(...times) - first);
  const x = (at: number) => Math.round(((at - first) / length) * (WIDTH - 8)) + 4;
  const height = ROW * spans.length;
  const rect = (kind: string, row: number, from: number, to: number) =>
    html`<rect
      class="${kind}"
      x="${x(from)}"
      y="${row * ROW + 6}"
      width="${Math.max(4, x(to) - x(from))}"
      height="${ROW - 12}"
    ></rect>`;
  return html`<figure>
      <svg
        class="axis"
        viewBox="0 0 ${WIDTH} ${height}"
        preserveAspectRatio="none"
        role="img"
        aria-labelledby="axis-title"
      >
        <title id="axis-title">Time axis of the record; the list below says the same</title>
        ${leaseEnd !== undefined && leaseEnd > now && rect('left', spans.length - 1, now, leaseEnd)}
        ${spans.map(({ from, to }, row) => rect('held', row, from, to))}
        ${marks.map(({ at, kind }) => html`<line class="${kind}" x1="${x(at)}" x2="${x(at)}" y1="0" y2="${height}"></line>`)}
      </svg>
      <figcaption>
        Each bar is an attempt while it is known to have had the record. Earlier attempts are those
        that the record tells of, and those that this process has seen, as are events.
      </figcaption>
    </figure>
    <ol class="times">
      ${marks.map(({ at, kind, says }) => html`<li class="${kind}">${time(new Date(at))} ${says}</li>`)}
    </ol>`;
}

/** Of an attempt that the record tells of. */
function marksOf({
  attempt,
  from,
  holder,
  tookMs,
  end,
}: AttemptAnnotations &
  Pick<Span, 'attempt' | 'from'> & { readonly end?: string | undefined }): Mark[] {
  const who = `attempt ${String(attempt)}`;
  const began = [
    `${who} began`,
    holder !== undefined && html` in <bdi>${holder}</bdi>`,
    end === 'expired' && ', and its lease ended without an outcome',
  ];
  const marks: Mark[] = [{ at: from, kind: 'began', says: began }];
  if (tookMs !== undefined) {
    const says = `${who}: ${end === undefined ? 'ended' : 'released'} after ${textOfMs(tookMs)}`;
    marks.push({ at: from + tookMs, kind: 'event', says });
  }
  return marks;
}

function leaseWords(now: number, leaseEnd: number): string {
  return leaseEnd > now
    ? 'the lease ends, unless a heartbeat extends it'
    : 'the lease ended without an outcome';
}

function wordsOf({ type, attempt, detail }: SeenEvent): string {
  const who = attempt === undefined ? '' : `attempt ${String(attempt)}: `;
  const words = type.replaceAll('_', ' ');
  return `${who}${words}${detail === undefined ? '' : ` (${detail})`}`;
}

function endOf(attempt: number, events: readonly SeenEvent[], from: number): number {
  const end = events.find((event) => event.attempt === attempt && ENDS.includes(event.type));
  return end?.at.getTime() ?? from;
}

/** The attempts before the latest, as far as this process began them. */
function earlier(events: readonly SeenEvent[], latest: number): Span[] {
  return events.flatMap(({ type, attempt, at }) => {
    if (type !== 'acquired' || attempt === undefined || attempt >= latest) return [];
    return [{ attempt, from: at.getTime(), to: endOf(attempt, events, at.getTime()) }];
  });
}
