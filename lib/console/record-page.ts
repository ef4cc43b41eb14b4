import type { ActionResult } from '../core/operator/operator.js';
import type { OperatorAction } from '../core/operator/operator-options.js';
import type { PossibleAction, RecordSheet } from '../core/operator/record-sheet.js';
import { textOfMs } from '../core/operator/text-of-ms.js';
import { DROPPING, LABELS, resultWords, TYPED } from './actions.js';
import type { ConsolePermission } from './console-options.js';
import { html, type Html } from './html.js';
import type { SeenEvent } from './recent-events.js';
import { axis } from './axis.js';
import { ago, factList, page, reasonField, recordLink, type Facts, type Frame } from './layout.js';
import { stateOf } from './list-pages.js';

/** What an operator can do on a record's page; nothing on a read-only console. */
export type Offered = ReadonlySet<ConsolePermission>;

export function recordPage(
  frame: Frame,
  sheet: RecordSheet,
  events: readonly SeenEvent[],
  offered: Offered | undefined,
  now: number,
): Html {
  return page(frame, undefined, 'Record', about(frame.root, sheet, events, offered, now));
}

/** After an act: how it ended, and the record as it is now. */
export function resultPage(
  frame: Frame,
  { action, kind, isAudited, recordKey }: ActionResult,
  record: Html | undefined,
): Html {
  return page(
    frame,
    undefined,
    `${LABELS[action]}: ${kind === 'ok' ? 'done' : kind.replaceAll('_', ' ')}`,
    [
      html`<p class="note" role="status">${resultWords({ kind, isAudited })}</p>`,
      record ?? html`<p>${recordLink(frame.root, recordKey)}</p>`,
    ],
  );
}

/** The content of a record's page. */
export function about(
  root: string,
  sheet: RecordSheet,
  events: readonly SeenEvent[],
  offered: Offered | undefined,
  now: number,
): Html {
  const { recordKey, record, annotations, happened, retry, actions } = sheet;
  const { holder, tookMs } = annotations;
  const operation =
    annotations.operation ?? events.find((event) => event.operation !== undefined)?.operation;
  const facts: Facts = [
    ['Record', html`<code>${recordKey}</code>`],
    ['State', stateOf(sheet)],
    [
      'Operation',
      operation === undefined ? 'not seen by this process' : html`<bdi>${operation}</bdi>`,
    ],
    ['Process', holder === undefined ? 'unknown' : html`<bdi>${holder}</bdi>`],
    ['Attempts', record.attempt],
    ['Takeovers', record.takeovers],
    ['Began', ago(record.ageMs)],
    ['Took', tookMs === undefined ? 'unknown' : textOfMs(tookMs)],
    ['Fencing token', record.fence],
    ['Note', record.note === undefined ? 'none' : html`<bdi>${record.note}</bdi>`],
  ];
  const possible = actions.filter(({ action }) => offered?.has(action));
  return html`<p>${happened}</p>
    <p>${retry}</p>
    <h2>Time</h2>
    ${axis(sheet, events, now)}
    <h2>Facts</h2>
    ${factList(facts)}
    <p><a href="${root}records/${recordKey}">Look again</a></p>
    <h2>Actions</h2>
    ${
      possible.length === 0
        ? html`<p>
            ${offered === undefined ? 'This console is read-only.' : 'You may do nothing to this record.'}
          </p>`
        : possible.map((action) =>
            form(root, sheet, action, offered?.has('even_if_running') ?? false),
          )
    }`;
}

function form(
  root: string,
  { recordKey, expected }: RecordSheet,
  { action, effect, needsEvenIfRunning }: PossibleAction,
  mayOverrule: boolean,
): Html {
  const id = (name: string) => `${action}-${name}`;
  const isDropping = DROPPING.includes(action);
  const canOverrule = mayOverrule && (needsEvenIfRunning || isDropping);
  const start = recordKey.slice(0, TYPED);
  return html`<details>
    <summary>${LABELS[action]}</summary>
    <form method="post" action="${root}records/${recordKey}/${action}">
      <p>${effect}</p>
      <input type="hidden" name="state" value="${expected.state}" />
      <input type="hidden" name="fence" value="${expected.fence}" />
      ${(action === 'retain' || action === 'complete') && retention(action, id('retention'))}
      ${
        (action === 'release' || action === 'reopen') &&
        html`<p>
          <input id="${id('nothing')}" name="nothingHappened" type="checkbox" value="yes" />
          <label for="${id('nothing')}"
            >I vouch that the attempt had no effect: the next one is no takeover</label
          >
        </p>`
      }
      ${
        canOverrule &&
        html`<p>
          <input id="${id('running')}" name="evenIfRunning" type="checkbox" value="yes" />
          <label for="${id('running')}"
            >${isDropping ? 'Even if the outcome was stored just now' : 'Even while an attempt has the record'}</label
          >
        </p>`
      }
      ${reasonField(id('reason'))}
      ${
        (isDropping || canOverrule) &&
        html`<p>
          <label for="${id('typed')}"
            >${isDropping ? 'It' : 'If you overrule an attempt, it'} may have its effect again. Type
            ${start}</label
          >
          <input
            id="${id('typed')}"
            name="typed"
            type="text"
            ${isDropping && html` required`}
            autocomplete="off"
            spellcheck="false"
          />
        </p>`
      }
      <p><button type="submit">${LABELS[action]}</button></p>
    </form>
  </details>`;
}

function retention(action: OperatorAction, id: string): Html {
  const isRequired = action === 'retain';
  return html`<p>
    <label for="${id}"
      >For how long, from now, such as 7d${!isRequired && '; empty for the usual time'}</label
    >
    <input
      id="${id}"
      name="retention"
      type="text"
      ${isRequired && html` required`}
      autocomplete="off"
    />
  </p>`;
}
