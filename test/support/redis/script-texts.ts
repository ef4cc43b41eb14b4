import type { LuaScript, LuaScripts } from '../internals/redis.js';

/** Every text that a store may send, by the name of its script: with and without flags, and for large records. */
export function scriptTexts(scripts: LuaScripts): (readonly [name: string, script: LuaScript])[] {
  return Object.entries(scripts).flatMap(([name, script]) =>
    [script, script.flagged, script.large].flatMap((each) =>
      each === undefined ? [] : [[name, each] as const],
    ),
  );
}
