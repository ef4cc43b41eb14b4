/** Text of a page in which every value has been escaped: only {@link html} makes it. */
class Html {
  constructor(readonly text: string) {}
}
export type { Html };

/** What a template takes. A text is escaped; `undefined` and `false` are nothing. */
export type HtmlValue = Html | string | number | undefined | false | readonly HtmlValue[];

const ESCAPES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

/** A piece of a page. Values may stand in text and in quoted attributes, and nowhere else. */
export function html(strings: TemplateStringsArray, ...values: readonly HtmlValue[]): Html {
  const [first = '', ...others] = strings;
  return new Html(
    others.reduce((text, next, index) => text + escaped(values[index]) + next, first),
  );
}

function escaped(value: HtmlValue): string {
  if (value === undefined || value === false) return '';
  if (value instanceof Html) return value.text;
  if (typeof value === 'object') return value.map(escaped).join('');
  return String(value).replace(/[&<>"']/g, (character) => ESCAPES[character] ?? '');
}
