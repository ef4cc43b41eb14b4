import type { Mutation } from './clocked-store.js';

interface Mutant {
  readonly name: string;
  readonly mutate: Mutation;
}

const NOW = `date_trunc('milliseconds', statement_timestamp())`;

/** Mistakes that were made elsewhere, or that are easy to make here. */
export const MUTANTS: readonly Mutant[] = [
  mutant('begin', 'the lease reaches beyond the hard deadline', [
    'least($4::bigint, $5::bigint)',
    '$4::bigint',
  ]),
  mutant('begin', 'it acquires after notAfter', ['< to_timestamp($7', '<> to_timestamp($7']),
  mutant('take', 'the fence comes from the clock alone', [
    'greatest(record.fence + 1,',
    'greatest(0,',
  ]),
  mutant('take', 'a takeover is not counted', ['record.takeovers + 1', 'record.takeovers']),
  mutant('take', 'an expired record hands its counters on', [
    `attempt = CASE how WHEN 'expired' THEN 1`,
    `attempt = CASE how WHEN 'never' THEN 1`,
  ]),
  mutant('renew', 'the lease reaches beyond the hard deadline', [
    'deadline)',
    "deadline + interval '1 hour')",
  ]),
  mutant('clamp', 'the clamp is not written down', ["state = 'in_progress'", 'false']),
  mutant('extend', 'the owner is not compared', ['token = $2::text', 'true']),
  mutant('extend', 'the fence is not compared', ['fence = $3::bigint', 'true']),
  mutant('extend', 'a lease that is over is prolonged like one that runs', [
    `lease_until > ${NOW}`,
    'true',
  ]),
  mutant('complete', 'the owner is not compared', ['token = $2::text', 'true']),
  mutant('complete', 'the fence is not compared', ['fence = $3::bigint', 'true']),
  mutant('complete', 'the record lives on in the millisecond of its expiry', [
    `expires_at > ${NOW}`,
    `expires_at >= ${NOW}`,
  ]),
  mutant('complete', 'an outcome is replaced', ["state = 'in_progress'", "state <> 'released'"]),
  mutant('complete', 'the retention is not that of the outcome', [
    '$5::bigint *',
    '($5::bigint + 1) *',
  ]),
  mutant('complete-released', 'a late success lowers the fence', [
    'greatest(fence, $3::bigint)',
    '$3::bigint',
  ]),
  mutant('complete-released', 'the fingerprint stays that of the other attempt', [
    'fingerprint = $5::text',
    'fingerprint = fingerprint',
  ]),
  mutant('restore', 'a success is restored as a failure', ["'completed'", "'failed'"]),
  mutant('restore', 'a restored outcome lowers the fence', [
    'greatest(record.fence, excluded.fence)',
    'excluded.fence',
  ]),
  mutant('release', 'an outcome may be released', ["state = 'in_progress'", 'true']),
  mutant('release', 'another attempt may release', ['token = $2::text', 'true']),
  mutant('release', 'the fence is not compared', ['fence = $3::bigint', 'true']),
  mutant('look', 'it shows what is due in another second', [
    'extract(epoch FROM expires_at)',
    'extract(epoch FROM expires_at) + 1',
  ]),
];

function mutant(
  statement: string,
  mistake: string,
  [original, changed]: readonly [string, string],
): Mutant {
  const mutate: Mutation = (file, text) => {
    if (file !== statement) return text;
    const at = text.lastIndexOf(original);
    if (at === -1) throw new Error(`${statement}.sql does not hold: ${original}`);
    return text.slice(0, at) + changed + text.slice(at + original.length);
  };
  return { name: `${statement}: ${mistake}`, mutate };
}
