import { atOnce } from '../../core/util/maybe-async.js';

/** How the key's header field is read: see {@link HttpOptions.keySyntax}. */
export type KeySyntax = 'lenient' | 'strict' | 'uuid' | ((key: string) => boolean);

/** The value of a field that is not there, or `false` where it is there and says no key. */
export type ParsedKey = string | false;

/** Printable ASCII without what means something around a structured field: quotes, lists, parameters. */
const BARE_KEY = /^[!#-+\--:<-[\]-~]+$/;
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
/** sf-string (RFC 9651 §3.3.3) and, behind it, parameters (§3.1.2). */
const STRING_ITEM = /^"((?:[ !#-[\]-~]|\\["\\])*)"(.*)$/;
const PARAMETER_NAME = /^;[ ]*[a-z*][a-z0-9_\-.*]*/;
/** The bare items of RFC 9651 §3.3: a parameter has one of them as its value. */
const BARE_ITEMS = [
  /^"(?:[ !#-[\]-~]|\\["\\])*"/, // String
  /^[A-Za-z*][!#$%&'*+\-.^_`|~0-9A-Za-z:/]*/, // Token
  /^:(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}(?:==)?|[A-Za-z0-9+/]{3}=?)?:/, // Byte Sequence
  /^@-?[0-9]{1,15}(?![0-9.])/, // Date
  /^-?(?:[0-9]{1,12}\.[0-9]{1,3}|[0-9]{1,15})(?![0-9.])/, // Decimal and Integer
  /^\?[01]/, // Boolean
  /^%"(?:[ !#$&-~]|%[0-9a-f]{2})*"/, // Display String
];

/**
 * Reads the key from its field's value: a structured-field String (RFC 9651), and in `lenient` mode bare
 * text as well; `"k"` and `k` are the same key (contract C01–C17).
 *
 * @param value - one field line, without white space around it.
 * @param maxLength - of the decoded key.
 * @returns the key, or `false` when the field is malformed: never a truncated or guessed one.
 */
export function parseKey(value: string, syntax: KeySyntax, maxLength: number): ParsedKey {
  const isItem = value.startsWith('"') || syntax === 'strict';
  const key = isItem ? stringItem(value) : value;
  if (key === false || key === '' || key.length > maxLength) return false;
  return (isItem || BARE_KEY.test(key)) && isOfSyntax(key, syntax) && key;
}

/** Whether a key, however it came, is one that `syntax` allows; all are that a header field could not say otherwise. */
export function isOfSyntax(key: string, syntax: KeySyntax): boolean {
  if (syntax === 'uuid') return UUID.test(key);
  return typeof syntax !== 'function' || atOnce('keySyntax', syntax(key));
}

/**
 * The key in the lines of its header field.
 *
 * @param lines - as {@link fieldLines} gives them.
 * @returns the key, `false` where the field is malformed or came twice, and `undefined` where it did not come.
 */
export function keyInLines(
  lines: readonly string[],
  syntax: KeySyntax,
  maxLength: number,
): ParsedKey | undefined {
  const [line, ...others] = lines;
  if (line === undefined) return undefined;
  // Two lines make a list, and an Item is not one (RFC 9651 §4.2), even if they are equal.
  return others.length === 0 && parseKey(withoutOws(line), syntax, maxLength);
}

/**
 * Spaces and tabs alone (RFC 9110 §5.6.3): `trim` takes others, which are not allowed in a key, for none. A loop, because
 * a regular expression looks for the end of the line from each space inside of it.
 */
function withoutOws(line: string): string {
  let start = 0;
  let end = line.length;
  while (start < end && isOws(line[start])) start += 1;
  while (end > start && isOws(line[end - 1])) end -= 1;
  return line.slice(start, end);
}

function isOws(char: string | undefined): boolean {
  return char === ' ' || char === '\t';
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
    const name = PARAMETER_NAME.exec(rest)?.[0];
    if (name === undefined) return false;
    rest = rest.slice(name.length);
    if (!rest.startsWith('=')) continue;
    const item = bareItem(rest.slice(1));
    if (item === undefined) return false;
    rest = rest.slice(1 + item.length);
  }
  return true;
}

function bareItem(text: string): string | undefined {
  for (const pattern of BARE_ITEMS) {
    const item = pattern.exec(text)?.[0];
    if (item !== undefined) return item.startsWith('%') && !isUtf8(item) ? undefined : item;
  }
  return undefined;
}

/** The escapes of a Display String are those of UTF-8 (RFC 9651 §4.2.10). */
function isUtf8(displayString: string): boolean {
  try {
    decodeURIComponent(displayString.slice(1));
    return true;
  } catch {
    return false;
  }
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
