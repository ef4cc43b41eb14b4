import { textOfMs } from '../core/operator/text-of-ms.js';
import { html, type Html, type HtmlValue } from './html.js';

/** What every page needs to know. */
export interface Frame {
  /** The way to the console's own place: {@link rootOf}. */
  readonly root: string;
  readonly actor: string | undefined;
}

const PAGES = [
  ['now', 'Now'],
  ['find', 'Find'],
  ['abandoned', 'Abandoned'],
  ['audit', 'Audit'],
] as const;

export type PageName = (typeof PAGES)[number][0];

/** A whole page. @param here - its place in the navigation. */
export function page(
  { root, actor }: Frame,
  here: PageName | undefined,
  title: string,
  content: HtmlValue,
): Html {
  const links = PAGES.map(
    ([path, name]) =>
      html`<li>
        <a href="${root}${path}" ${path === here && html` aria-current="page"`}>${name}</a>
      </li>`,
  );
  return html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <meta name="robots" content="noindex" />
        <title>${title} · Idempotency</title>
        <link rel="stylesheet" href="${root}console.css" />
      </head>
      <body>
        <a class="skip" href="#main">Skip to the page</a>
        <header>
          <nav aria-label="Console">
            <ul>
              ${links}
            </ul>
          </nav>
          ${actor !== undefined && html`<p>You are <bdi>${actor}</bdi></p>`}
        </header>
        <main id="main" tabindex="-1">
          <h1>${title}</h1>
          ${content}
        </main>
      </body>
    </html> `;
}

/** A time by the process' clock, to the second. */
export function time(at: Date): Html {
  const text = at.toISOString();
  return html`<time datetime="${text}">${text.slice(0, 19).replace('T', ' ')} UTC</time>`;
}

export function ago(ms: number): string {
  return `${textOfMs(Math.max(0, Math.round(ms)))} ago`;
}

/** A record's key, as a link to its page. */
export function recordLink(root: string, recordKey: string): Html {
  return html`<a href="${root}records/${recordKey}"><code>${recordKey}</code></a>`;
}

/** Names and what they have. */
export type Facts = readonly (readonly [name: string, value: HtmlValue])[];

export function factList(facts: Facts): Html {
  return html`<dl class="facts">
    ${facts.map(
      ([name, value]) =>
        html`<div>
          <dt>${name}</dt>
          <dd>${value}</dd>
        </div>`,
    )}
  </dl>`;
}

/** A table that scrolls by itself where the page is narrow. */
export function table(
  caption: string,
  heads: readonly string[],
  rows: readonly (readonly HtmlValue[])[],
): Html {
  const cells = (row: readonly HtmlValue[]) =>
    row.map((cell, index) =>
      index === 0 ? html`<th scope="row">${cell}</th>` : html`<td>${cell}</td>`,
    );
  return html`<div class="wide" role="region" aria-label="${caption}" tabindex="0">
    <table>
      <caption>
        ${caption}
      </caption>
      <thead>
        <tr>
          ${heads.map((head) => html`<th scope="col">${head}</th>`)}
        </tr>
      </thead>
      <tbody>
        ${rows.map(
          (row) =>
            html`<tr>
              ${cells(row)}
            </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}

/** Of each form that acts. */
export function reasonField(id: string): Html {
  return html`<p>
    <label for="${id}">Why, for the audit</label>
    <input
      id="${id}"
      name="reason"
      type="text"
      required
      minlength="3"
      maxlength="500"
      autocomplete="off"
    />
  </p>`;
}

/** What a page says in a sentence or two. */
export function message(frame: Frame, title: string, ...sentences: readonly string[]): Html {
  return page(
    frame,
    undefined,
    title,
    sentences.map((sentence) => html`<p>${sentence}</p>`),
  );
}
