import { atOnce } from '../../core/util/maybe-async.js';
import { wrongResult } from '../../core/options/option-checks.js';

/** How the key's header field is parsed: see {@link KeyOptions.syntax}. */
export type KeySyntax = 'lenient' | 'strict' | 'uuid' | ((key: string) => boolean);

/** The decoded key, or `false` if the field is malformed. */
export type ParsedKey = string | false;

/** Printable ASCII without the delimiters of structured fields: quotes, commas, semicolons, backslashes. */
const BARE_KEY = /^[!#-+\--:<-[\]-~]+$/;
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
/** sf-string (RFC 9651 §3.3.3), followed by parameters (§3.1.2). */
const STRING_ITEM = /^"((?:[ !#-[\]-~]|\\["\\])*)"(.*)$/;
const PARAMETER_NAME = /^;[ ]*[a-z*][a-z0-9_\-.*]*/;
/** The bare items of RFC 9651 §3.3, the possible values of a parameter. */
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
 * Parses one line of the key's field, without surrounding whitespace: a structured-field String (RFC 9651) or, unless
 * `strict`, also bare text. `"k"` and `k` are the same key (contract C01–C17).
 * @returns the decoded key, never truncated or guessed, or `false` if the field is malformed.
 */
export function parseKey(value: string, syntax: KeySyntax, maxLength: number): ParsedKey {
  const isItem = value.startsWith('"') || syntax === 'strict';
  const key = isItem ? stringItem(value) : value;
  if (key === false || key === '' || key.length > maxLength) return false;
  return (isItem || BARE_KEY.test(key)) && isOfSyntax(key, syntax) && key;
}

/**
 * Whether `syntax` allows a decoded key. `lenient` and `strict` restrict only the form in the header field.
 * @throws {@link IdempotencyOptionsError} if a function does not return a boolean.
 */
export function isOfSyntax(key: string, syntax: KeySyntax): boolean {
  if (syntax === 'uuid') return UUID.test(key);
  if (typeof syntax !== 'function') return true;
  const isAllowed: unknown = atOnce('key.syntax', syntax(key));
  if (typeof isAllowed === 'boolean') return isAllowed;
  // Otherwise a function without a `return` would make a request that has a key one that has none.
  throw wrongResult('key.syntax', 'true or false', isAllowed);
}

/** An integer, as a number or a bigint, is the same key as its digits. Any other value is returned as it is. */
export function asKeyText(value: unknown): unknown {
  return Number.isSafeInteger(value) || typeof value === 'bigint' ? String(value) : value;
}

/** @returns the key in its field's lines; `false` if malformed or present twice, `undefined` if absent. */
export function keyInLines(
  lines: readonly string[],
  syntax: KeySyntax,
  maxLength: number,
): ParsedKey | undefined {
  const line = lines[0];
  if (line === undefined) return undefined;
  // Two lines, even equal ones, form a list, which is not an Item (RFC 9651 §4.2).
  return lines.length === 1 && parseKey(withoutOws(line), syntax, maxLength);
}

/**
 * Trims spaces and tabs only (RFC 9110 §5.6.3): `trim` would also remove characters that are not allowed in a key. A
 * loop, because a regular expression would search for the end of the line from each space inside it.
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

/** Escapes in a Display String must be UTF-8 (RFC 9651 §4.2.10). */
function isUtf8(displayString: string): boolean {
  try {
    decodeURIComponent(displayString.slice(1));
    return true;
  } catch {
    return false;
  }
}
