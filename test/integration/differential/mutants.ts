import type { Mutation } from './instrumented-scripts.js';

interface Mutant {
  readonly name: string;
  readonly mutate: Mutation;
}

/** Mistakes that were made elsewhere, or that are easy to make here. */
export const MUTANTS: readonly Mutant[] = [
  mutant('begin', 'a copy of an owner is told that it acquires anew', [
    'elseif mine then',
    'elseif false then',
  ]),
  mutant('begin', 'another request on the same key is not noticed', [
    'elseif fingerprint ~= ARGV[2] then',
    'elseif false then',
  ]),
  mutant('begin', 'a released attempt may begin again', [
    'if mine then return',
    'if false then return',
  ]),
  mutant('begin', 'a lease lasts a millisecond longer', [
    'if clamped > now then',
    'if clamped >= now then',
  ]),
  mutant('begin', 'a lease too far ahead is not clamped', [
    'math.min(leaseUntil, now + leaseMs)',
    'tonumber(leaseUntil)',
  ]),
  mutant('begin', 'the clamp is not written down', [
    'if clamped < tonumber(leaseUntil) then',
    'if false then',
  ]),
  mutant('begin', 'notAfter is the first millisecond that is too late', [
    'now > tonumber(ARGV[6])',
    'now >= tonumber(ARGV[6])',
  ]),
  mutant('begin', 'the fence comes from the clock alone', [
    'math.max((fence or 0) + 1, nowUs)',
    'nowUs',
  ]),
  mutant('begin', 'a takeover is not counted', ['takeovers + 1', 'takeovers']),
  mutant('begin', 'the lease reaches beyond the hard deadline', [
    'leaseUntil = math.min(now + leaseMs, deadline)',
    'leaseUntil = now + leaseMs',
  ]),
  mutant('begin', 'a large number loses its last digits', [
    "string.format('%.0f', math.max((fence or 0) + 1, nowUs))",
    'tostring(math.max((fence or 0) + 1, nowUs))',
  ]),
  mutant('begin', 'a record lives on in the millisecond of its expiry', [
    'tonumber(expiresAt) <= now',
    'tonumber(expiresAt) < now',
  ]),
  mutant('extend', 'the heartbeat is a plain PEXPIRE of whatever is there', [
    "if state ~= 'p' then",
    "if state ~= 'p' then redis.call('PEXPIREAT', KEYS[1], string.format('%.0f', now + ARGV[4]))",
  ]),
  mutant('extend', 'the owner is not compared', ['not mine or (', 'false or (']),
  mutant('extend', 'a hung attempt may go on', [
    'if now >= tonumber(deadline) then',
    'if false then',
  ]),
  mutant('extend', 'the hard deadline comes a millisecond later', [
    'now >= tonumber(deadline)',
    'now > tonumber(deadline)',
  ]),
  mutant('complete', 'the owner is not compared', ['not mine or (', 'false or (']),
  mutant('complete', 'the fence is not compared', ['not mine or (', 'not mine or false and (']),
  mutant('complete', 'an outcome is replaced by its own copy', [
    'elseif mine then',
    'elseif false then',
  ]),
  mutant('complete', 'an outcome of another content is handed over', [
    'if fingerprint ~= ARGV[5] then',
    'if false then',
  ]),
  mutant('complete', 'an outcome is never handed over', [
    'if fingerprint ~= ARGV[5] then',
    'if true then',
  ]),
  mutant('complete', 'the late failure of another is accepted', ["mine or ARGV[3] == 'f'", 'mine']),
  mutant('complete', 'a failure is restored', ["'report' or ARGV[3] == 'f'", "'report'"]),
  mutant('complete', 'a late success lowers the fence', ['math.max(fence, ARGV[2])', 'ARGV[2]']),
  mutant('complete', 'a restored outcome lowers the fence', ['math.max(fence or 0, own)', 'own']),
  mutant('complete', 'the retention is not that of the outcome', [
    'now + ARGV[4]',
    'now + ARGV[4] + 1',
  ]),
  mutant('release', 'the record is deleted', [
    "redis.call('SET', KEYS[1], line, 'PXAT', at)",
    "redis.call('DEL', KEYS[1])",
  ]),
  mutant('release', 'an outcome may be released', ["if state ~= 'p' then", "if state == 'r' then"]),
  mutant('release', 'another attempt may release', ['token ~= ARGV[1]', 'false']),
  mutant('release', 'the fence is not compared', ["ARGV[2] ~= '0' and fence ~= ARGV[2]", 'false']),
  mutant('inspect', 'it shows a lease that is not clamped', [
    'math.min(leaseUntil, now + leaseMs)',
    'tonumber(leaseUntil)',
  ]),
];

function mutant(
  operation: string,
  mistake: string,
  [original, changed]: readonly [string, string],
): Mutant {
  const mutate: Mutation = (script, text) => {
    if (script !== operation) return text;
    const mutated = text.replace(original, () => changed);
    if (mutated === text) throw new Error(`${operation}.lua does not hold: ${original}`);
    return mutated;
  };
  return { name: `${operation}: ${mistake}`, mutate };
}
