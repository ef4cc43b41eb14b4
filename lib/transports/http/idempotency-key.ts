/** How the key's header field is read: see {@link HttpOptions.keySyntax}. */
export type KeySyntax = 'lenient' | 'strict' | 'uuid' | ((key: string) => boolean);

/** The value of a field that is not there, or `false` where it is there and says no key. */
export type ParsedKey = string | false;

/** Printable ASCII without what means something around a structured field: quotes, lists, parameters. */
const BARE_KEY = /^[!#-+\--:<-[\]-~]+$/;
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
/** sf-string (RFC 9651 §3.3.3) and, behind it, parameters (§3.1.2). */
const STRING_ITEM = /^"((?:[ !#-[\]-~]|\\["\\])*)"(.*)$/;
const PARAMETER_KEY = /^;[ ]*([a-z*][a-z0-9_\-.*]*)/;
/** A bare item as a parameter's value: string, token, byte sequence, date, number or boolean. */
const PARAMETER_VALUE =
  /^=(?:"(?:[ !#-[\]-~]|\\["\\])*"|[A-Za-z*][!#$%&'*+\-.^_`|~0-9A-Za-z:/]*|:[A-Za-z0-9+/]*={0,2}:|@-?[0-9]{1,15}(?![0-9.])|-?(?:[0-9]{1,12}\.[0-9]{1,3}|[0-9]{1,15})(?![0-9.])|\?[01])/;

/**
 * Reads the key from its field's value: a structured-field String (RFC 9651), and in `lenient` mode bare
 * text as well; `"k"` and `k` are the same key (contract C01–C17).
 *
 * @param value - one field line, without white space around it.
 * @param maxLength - of the decoded key.
 * @returns the key, or `false` when the field is malformed: never a truncated or guessed one.
 */
export function parseKey(value: string, syntax: KeySyntax, maxLength: number): ParsedKey {
  const key = value.startsWith('"') || syntax === 'strict' ? stringItem(value) : bare(value);
  if (key === false || key === '' || key.length > maxLength) return false;
  if (syntax === 'uuid') return UUID.test(key) && key;
  if (typeof syntax === 'function') return syntax(key) && key;
  return key;
}

function bare(value: string): ParsedKey {
  return BARE_KEY.test(value) && value;
}

function stringItem(value: string): ParsedKey {
  const match = STRING_ITEM.exec(value);
  if (match === null) return false;
  const [, content = '', parameters = ''] = match;
  return areParameters(parameters) && content.replaceAll(/\\(["\\])/g, '$1');
}

function areParameters(text: string): boolean {
  let rest = text;
  while (rest !== '') {
    const key = PARAMETER_KEY.exec(rest);
    if (key === null) return false;
    rest = rest.slice(key[0].length);
    if (!rest.startsWith('=')) continue;
    const parameter = PARAMETER_VALUE.exec(rest);
    if (parameter === null) return false;
    rest = rest.slice(parameter[0].length);
  }
  return true;
}

/**
 * All lines of one header field as they came. Node joins repeated lines in `headers`, so that two keys
 * would pass for one (contract C07); `rawHeaders` is there on HTTP/2 too.
 *
 * @param name - in lower case.
 */
export function fieldLines(rawHeaders: readonly string[], name: string): string[] {
  const lines: string[] = [];
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const field = rawHeaders[i] ?? '';
    if (field.length === name.length && field.toLowerCase() === name)
      lines.push(rawHeaders[i + 1] ?? '');
  }
  return lines;
}
