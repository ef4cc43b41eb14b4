import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';

export interface LuaScript {
  readonly text: string;
  /** By which Redis knows the text. */
  readonly sha1: string;
}

const NAMES = ['begin', 'extend', 'complete', 'release', 'inspect', 'abandoned'] as const;

export type LuaScripts = Readonly<Record<(typeof NAMES)[number], LuaScript>>;

// The same folder from lib/stores/redis and from dist/stores/redis.
const FOLDER = new URL('../../../lua/', import.meta.url);

/** Reads the shipped scripts; a test may put another clock into their text. */
export function loadScripts(transform = (text: string): string => text): LuaScripts {
  const load = (name: string): LuaScript => {
    const text = transform(readFileSync(new URL(`${name}.lua`, FOLDER), 'utf8'));
    return { text, sha1: createHash('sha1').update(text).digest('hex') };
  };
  return Object.fromEntries(NAMES.map((name) => [name, load(name)])) as LuaScripts;
}
