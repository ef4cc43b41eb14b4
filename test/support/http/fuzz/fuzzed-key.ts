import { parseItem } from 'structured-headers';
import type { Random } from '../../../integration/differential/random.js';

const MAX_LENGTH = 255;

/** What the lines of the key's field mean, by a parser other than the library's. */
export type SaidKey =
  | { readonly kind: 'missing' }
  | { readonly kind: 'invalid' }
  | { readonly kind: 'valid'; readonly key: string };

export function saidKey(lines: readonly string[], isStrict: boolean): SaidKey {
  const [line, ...others] = lines;
  if (line === undefined) return { kind: 'missing' };
  const value = line.replace(/^[ \t]+|[ \t]+$/g, '');
  const key = !isStrict && isBare(value) ? value : stringItem(value);
  const isValid = others.length === 0 && key !== undefined && key !== '';
  return isValid && key.length <= MAX_LENGTH ? { kind: 'valid', key } : { kind: 'invalid' };
}

function stringItem(value: string): string | undefined {
  try {
    const [item] = parseItem(value);
    return typeof item === 'string' ? item : undefined;
  } catch {
    return undefined;
  }
}

/** Printable ASCII without a meaning in a structured field or a list. */
function isBare(value: string): boolean {
  return /^[!-~]+$/.test(value) && !/[",;\\]/.test(value);
}

const NOTABLE = ['__proto__', 'constructor', '../..', '%00', '*', '{a}', 'a b', "'", '0', 'null'];
const PARAMETERS = ['', '', '', ';v=1', '; w="x"', ';a=?1', ';', ';=1', ';A=1', ';a=:aGk=:', ' ;a'];
const SPACES = ['', '', '', '', ' ', '\t', ' \t '];
/** No `@`: structured-headers rejects a date with a parameter behind it, which RFC 9651 §3.3.7 allows. */
const SOUP = '"\\,;=: abzAZ09-_./%?*(){}\t\x7f\x80\xe9\xff\x01\x0b'.split('');

export interface FuzzedKey {
  readonly lines: readonly string[];
  /** A key that no request before it used, in a correct spelling. */
  readonly isNew: boolean;
}

/** @param known - keys of earlier requests, to be reused. */
export function fuzzedKey(random: Random, fresh: string, known: string[]): FuzzedKey {
  const kind = random.fraction();
  if (kind < 0.3) {
    known.push(fresh);
    return { lines: [random.chance(0.5) ? fresh : quoted(fresh)], isNew: true };
  }
  return { lines: oddLines(random, kind, knownOr(random, known)), isNew: false };
}

function oddLines(random: Random, kind: number, key: string): string[] {
  if (kind < 0.65) return [spelled(random, key)];
  if (kind < 0.72) return [];
  if (kind < 0.79) return [soup(random)];
  if (kind < 0.85) return [damaged(random, spelled(random, key))];
  if (kind < 0.9) return [spelled(random, key), random.chance(0.5) ? key : soup(random)];
  if (kind < 0.93) return [`${quoted(key)},${random.pick(SPACES)}${quoted(key)}`];
  if (kind < 0.96) return [lengthy(random)];
  return [spelled(random, random.pick(NOTABLE))];
}

/** Mostly recent ones: their operations may still be running. */
function knownOr(random: Random, known: readonly string[]): string {
  if (known.length === 0) return random.pick(NOTABLE);
  const reach = random.chance(0.7) ? 10 : known.length;
  return known[Math.max(0, known.length - random.integer(1, reach))]!;
}

function spelled(random: Random, key: string): string {
  const [before, after] = [random.pick(SPACES), random.pick(SPACES)];
  const value = random.chance(0.5) ? key : quoted(key) + random.pick(PARAMETERS);
  return `${before}${value}${after}`;
}

function quoted(key: string): string {
  return `"${key.replaceAll(/["\\]/g, '\\$&')}"`;
}

function soup(random: Random): string {
  return Array.from({ length: random.integer(0, 12) }, () => random.pick(SOUP)).join('');
}

function damaged(random: Random, text: string): string {
  const at = random.integer(0, text.length);
  const [before, after] = [text.slice(0, at), text.slice(at)];
  return random.chance(0.5) ? before + after.slice(1) : before + random.pick(SOUP) + after;
}

function lengthy(random: Random): string {
  const length = random.pick([254, 255, 256, 1_020, 4_000]);
  const text = random.chance(0.3) ? '"'.repeat(length) : 'x'.repeat(length);
  return random.chance(0.7) ? quoted(text) : text;
}
