import { textOfMs } from '../core/operator/text-of-ms.js';
import type { ActionResult } from '../core/operator/operator.js';
import type { OperatorAction } from '../core/operator/operator-options.js';
import type { RecordSheet } from '../core/operator/record-sheet.js';
import type { RecordList } from '../nest/idempotency-records.js';
import { LABELS, resultWords } from './actions.js';
import { html, type Html } from './html.js';
import type { SeenAct } from './recent-events.js';
import { ago, page, reasonField, recordLink, table, time, type Frame } from './layout.js';

/** Words for a record's state. */
export function stateOf({ record: { state, leaseLeftMs = 0 } }: RecordSheet): string {
  if (state !== 'in_progress') return state;
  return leaseLeftMs > 0 ? 'running' : 'abandoned';
}

/** @param choose - makes what chooses a record. */
function sheets(
  root: string,
  caption: string,
  records: readonly RecordSheet[],
  choose?: (sheet: RecordSheet) => Html,
): Html {
  return table(
    caption,
    ['Record', 'State', 'Began', 'Attempt', 'Lease', 'Kept for', ...(choose ? ['Choose'] : [])],
    records.map((sheet) => {
      const { ageMs, attempt, leaseLeftMs, retentionLeftMs } = sheet.record;
      return [
        recordLink(root, sheet.recordKey),
        stateOf(sheet),
        ago(ageMs),
        attempt,
        leaseLeftMs === undefined
          ? ''
          : leaseLeftMs > 0
            ? `${textOfMs(leaseLeftMs)} left`
            : `over ${ago(-leaseLeftMs)}`,
        textOfMs(retentionLeftMs),
        ...(choose ? [choose(sheet)] : []),
      ];
    }),
  );
}

/** What can be done to several records. */
export interface Choice {
  /** None, where the operator may do nothing to several. */
  readonly actions: readonly OperatorAction[];
  readonly areChosen: boolean;
  /** The cursor of this page. */
  readonly here: string;
}

/** How each act ended. @param why - why it went no further. */
export function bulkPage(
  frame: Frame,
  action: OperatorAction,
  results: readonly ActionResult[],
  chosen: number,
  why: string | undefined,
): Html {
  const done = results.filter(({ kind }) => kind === 'ok' || kind === 'already').length;
  return page(frame, undefined, `${LABELS[action]}: ${String(done)} of ${String(chosen)} done`, [
    why !== undefined && html`<p class="note" role="alert">${why}</p>`,
    results.length > 0 &&
      table(
        'Acts, in their order',
        ['Record', 'Result'],
        results.map(({ recordKey, kind, isAudited }) => [
          recordLink(frame.root, recordKey),
          resultWords({ kind, isAudited }),
        ]),
      ),
    html`<p><a href="${frame.root}abandoned">Abandoned</a></p>`,
  ]);
}

/** Attempts whose lease is over and that have left no outcome. */
export function abandonedPage(
  frame: Frame,
  { records, scanned, cursor }: RecordList,
  { actions, areChosen, here }: Choice,
): Html {
  const at = (from: string, chosen: string) =>
    `${frame.root}abandoned?cursor=${encodeURIComponent(from)}${chosen}`;
  const choose = ({ recordKey, expected }: RecordSheet) =>
    html`<input
      type="checkbox"
      name="${recordKey}"
      value="${expected.state} ${expected.fence}"
      aria-label="Choose ${recordKey}"
      ${areChosen && html` checked`}
    />`;
  return page(frame, 'abandoned', 'Abandoned', [
    html`<p>
        The lease of these attempts is over, and none has left an outcome: its process died, hangs
        or cannot reach the store. Whether it had its effect is unknown.
      </p>
      <p>
        ${records.length} found, ${scanned} records looked
        at${cursor === undefined ? '.' : ', and there are more to look at.'}
      </p>`,
    records.length > 0 &&
      (actions.length === 0
        ? sheets(frame.root, 'Abandoned records', records)
        : html`<form method="post" class="whole">
            <p>
              <a href="${at(here, areChosen ? '' : '&chosen=all')}"
                >Choose ${areChosen ? 'none' : 'all'}</a
              >
            </p>
            ${sheets(frame.root, 'Abandoned records', records, choose)} ${reasonField('reason')}
            <p>
              ${actions.map((action) => html`<button type="submit" formaction="${frame.root}abandoned/${action}">${LABELS[action]} those chosen</button> `)}
            </p>
          </form>`),
    cursor !== undefined && html`<p><a href="${at(cursor, '')}">Go on</a></p>`,
  ]);
}

/** @param found - `undefined` before the form was sent: nothing of it is shown again. */
export function findPage(
  frame: Frame,
  operations: readonly string[],
  found: readonly RecordSheet[] | string | undefined,
): Html {
  return page(frame, 'find', 'Find', [
    typeof found === 'string' && html`<p class="note" role="alert">${found}</p>`,
    typeof found === 'object' &&
      found.length > 0 &&
      sheets(frame.root, 'Records of this key', found),
    typeof found === 'object' &&
      found.length === 0 &&
      html`<p class="note" role="status">
        There is no record of this key. The request never arrived, was rejected before it began,
        belongs to another caller or another operation, or its record has expired.
      </p>`,
    html`<form method="post" action="${frame.root}find">
      <p>
        <label for="key">Idempotency key, as the client sent it</label>
        <input id="key" name="key" type="text" required autocomplete="off" spellcheck="false" />
      </p>
      <p>
        <label for="scope"
          >Caller, as the application names him; one part a line, the most general first</label
        >
        <textarea id="scope" name="scope" rows="2" autocomplete="off" spellcheck="false"></textarea>
      </p>
      <p>
        <label for="operation">Operation; none for all of this application</label>
        <input
          id="operation"
          name="operation"
          type="text"
          list="operations"
          autocomplete="off"
          spellcheck="false"
        />
      </p>
      <datalist id="operations">
        ${operations.map((operation) => html`<option value="${operation}"></option>`)}
      </datalist>
      <p><button type="submit">Find</button></p>
    </form>`,
  ]);
}

/** What operators have done, as this process has seen it. */
export function auditPage(frame: Frame, acts: readonly SeenAct[]): Html {
  return page(frame, 'audit', 'Audit', [
    html`<p>
      What operators did in this process since it started. All of it, with the reasons, is where the
      module option <code>operator.audit</code> puts it, by default in the log.
    </p>`,
    acts.length === 0
      ? html`<p>Nothing yet.</p>`
      : table(
          'Acts, the latest first',
          ['When', 'Who', 'What', 'Result', 'Record'],
          acts.map(({ at, event: { actor, action, result, isAudited, recordKey } }) => [
            time(at),
            html`<bdi>${actor}</bdi>`,
            action,
            isAudited ? result : `${result}, missing in the audit`,
            recordLink(frame.root, recordKey),
          ]),
        ),
  ]);
}
