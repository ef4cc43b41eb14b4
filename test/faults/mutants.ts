import { createHash } from 'node:crypto';
import { loadScripts, type LuaScripts } from '../support/internals/redis.js';
import type { PlantedMistake } from '../support/planted/planted-mistake.js';
import {
  lateAfterTimeout,
  lateBegin,
  lateHeartbeat,
  lateOwner,
  lateRelease,
  longRun,
  lostBegin,
  otherBody,
  outOfMemory,
  vanishedRecord,
} from './store/scenarios.js';
import type { Scenario } from './store/support/verdict.js';

/** A rule of the protocol that is left out of one script, and the scenario that has to notice. */
export interface Mutant extends PlantedMistake {
  readonly scenario: Scenario;
  readonly objection: string;
  readonly scripts: () => LuaScripts;
}

const lostReply = lostBegin('lose the reply');
/** The files of test/faults/store that check that a scenario has no objection to the scripts as they are. */
const SUITES = new Map<Scenario, string>([
  [lateAfterTimeout, 'late-copies'],
  [lateBegin, 'late-copies'],
  [lateHeartbeat, 'late-copies'],
  [lateOwner, 'outlived-leases'],
  [lateRelease, 'outlived-leases'],
  [longRun, 'outlived-leases'],
  [lostReply, 'lost-messages'],
  [otherBody, 'same-key'],
  [outOfMemory, 'lost-records'],
  [vanishedRecord, 'lost-records'],
]);

const OWNER = 'local mine = token == ownToken';
const IS_LATE =
  "if ARGV[6] ~= '0' and now > tonumber(ARGV[6]) then return nonce .. ' late ' .. string.format('%.0f', now) end";
const RECORD_GONE = "if not state then return nonce .. ' gone' end\n";
const HARMLESS_WRITE = "redis.call('PEXPIREAT', KEYS[1], at) -- without allow-oom\n";
const NEW_RECORD = "redis.call('SET', KEYS[1], record, 'PX', ARGV[4], 'NX')";

/** What articles show: no owner token, EXPIRE as heartbeat, DEL on failure; and one for each further rule. */
export const MUTANTS: readonly Mutant[] = [
  mutant('complete', 'without a check of the owner', lateOwner, 'different successes for one key', [
    [OWNER, 'local mine = true'],
  ]),
  mutant(
    'complete',
    'that overwrites the outcome of another',
    lateOwner,
    'different successes for one key',
    [
      ['elseif mine then', 'elseif true then if mine then'],
      [
        "return nonce .. ' already'\n  else",
        "return nonce .. ' already' end\n    kind, line = ' ok', string.sub(value, 3, rest - 1)\n  else",
      ],
    ],
  ),
  mutant(
    'extend',
    'is an EXPIRE of whatever is there: the lease of a long run',
    longRun,
    'effects: 2',
    [[RECORD_GONE, "redis.call('PEXPIRE', KEYS[1], ARGV[3])\ndo return nonce .. ' ok' end\n"]],
  ),
  mutant(
    'extend',
    'is an EXPIRE of whatever is there: the retention of an outcome',
    lateHeartbeat,
    'the record',
    [[RECORD_GONE, "redis.call('PEXPIRE', KEYS[1], ARGV[3])\ndo return nonce .. ' ok' end\n"]],
  ),
  mutant('release', 'is a DEL: a begin that arrives late', lateBegin, 'the reply to the copy', [
    ["redis.call('SET', KEYS[1], record, 'PXAT', at)", "redis.call('DEL', KEYS[1])"],
  ]),
  mutant('release', 'is a DEL: an outcome of another', lateRelease, 'executed again', [
    [RECORD_GONE, "redis.call('DEL', KEYS[1])\ndo return nonce .. ' ok' end\n"],
  ]),
  mutant(
    'begin',
    'that does not recognize its own copy',
    lostReply,
    'the response to the request',
    [['elseif mine then', 'elseif false then']],
  ),
  mutant('begin', 'that has no limit in time', lateAfterTimeout, 'the reply to the copy', [
    [IS_LATE, ''],
  ]),
  mutant('begin', 'that does not recognize a stale copy', lateBegin, 'the reply to the copy', [
    ["if mine then return nonce .. ' stale_begin' end", ''],
  ]),
  mutant('begin', 'that does not check the content', otherBody, 'the reuse in flight', [
    ['elseif fingerprint ~= ARGV[3] then', 'elseif false then'],
  ]),
  // A little shorter than the lease: if both ended in the same millisecond, it would sometimes be taken over.
  mutant('begin', 'whose record does not outlive its lease', lateOwner, "the successor's event", [
    [
      NEW_RECORD,
      "redis.call('SET', KEYS[1], record, 'PX', string.match(ARGV[5], '^%d+') - 100, 'NX')",
    ],
  ]),
  mutant('begin', 'that writes a little first, and then the record', outOfMemory, 'a begin', [
    [`if ${NEW_RECORD}`, `redis.call('DEL', KEYS[1])\n  if ${NEW_RECORD}`],
  ]),
  mutant('complete', 'whose first write needs memory', outOfMemory, 'the events of one worker', [
    [HARMLESS_WRITE, ''],
  ]),
  mutant('extend', 'whose first write needs memory', outOfMemory, 'the lease was renewed', [
    [HARMLESS_WRITE, ''],
  ]),
  mutant(
    'release',
    'whose first write needs memory',
    outOfMemory,
    'the events of the other worker',
    [[HARMLESS_WRITE, '']],
  ),
  mutant(
    'complete',
    'that does not restore a vanished record',
    vanishedRecord,
    'different successes for one key',
    [["if whenGone == 'report' or ARGV[3] == 'f' then", 'if true then']],
  ),
];

function mutant(
  name: keyof LuaScripts,
  mistake: string,
  scenario: Scenario,
  objection: string,
  changes: readonly (readonly [original: string, changed: string])[],
): Mutant {
  const scripts = () => {
    const shipped = loadScripts();
    const text = changes.reduce((before, [original, changed]) => {
      if (!before.includes(original)) throw new Error(`${name}.lua does not hold: ${original}`);
      return before.replace(original, () => changed);
    }, shipped[name].text);
    const sha1 = createHash('sha1').update(text).digest('hex');
    return { ...shipped, [name]: { text, sha1 } };
  };
  const suite = `test/faults/store/${SUITES.get(scenario)}.test.ts`;
  return { mistake: `${name} ${mistake}`, suite, scenario, objection, scripts };
}
