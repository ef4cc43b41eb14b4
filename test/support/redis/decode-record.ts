import type { Fingerprint, OwnerToken, StoredRecord } from '../internals/core.js';

const STATES: Readonly<Record<string, StoredRecord['state']>> = {
  p: 'in_progress',
  c: 'completed',
  f: 'failed',
  r: 'released',
};

const FIRST_LINE = /^2([pcfr])(\d+) (\S+) (\d+) (\d+) (\S+)(?: ([!-~]+)\x7f*)?\n/;
const DURATIONS = /^(=|\d+) (\d+) (-?\d+) (\d+) (\S+)\n$/;
const FINISHED = /^(\d+)\n([^\n]*)\n([^]*)$/;
const RELEASED = /^(\d+)\n$/;

/**
 * Reads a record of Redis as the header of lua/begin.lua describes it, independently of the store's own code.
 *
 * @param value - as latin1, one character for each byte.
 * @throws when it is no record.
 */
export function decodeRecord(value: string): StoredRecord {
  const first = partsOf(value, FIRST_LINE);
  const state = STATES[first[1]!]!;
  const base = {
    fence: Number(first[2]),
    token: first[3] as OwnerToken,
    attempt: Number(first[4]),
    takeovers: Number(first[5]),
    fingerprint: first[6] as Fingerprint,
    ...(first[7] === undefined ? {} : { note: first[7] }),
  };
  const rest = value.slice(first[0].length);
  switch (state) {
    case 'in_progress': {
      const [, since, leaseMs, maxExecutionMs, retentionMs, origin] = partsOf(rest, DURATIONS);
      const from = Math.floor(Number(since === '=' ? base.fence : since) / 1_000);
      const deadline = from + Number(maxExecutionMs);
      return {
        ...base,
        state,
        leaseUntil: Math.min(from + Number(leaseMs), deadline),
        leaseMs: Number(leaseMs),
        deadline,
        expiresAt: from + Number(retentionMs),
        origin: origin === '-' ? undefined : origin,
      };
    }
    case 'released':
      return { ...base, state, expiresAt: Number(partsOf(rest, RELEASED)[1]) };
    default: {
      const [, expiresAt, header = '', body = ''] = partsOf(rest, FINISHED);
      const outcome = {
        header: Buffer.from(header, 'latin1').toString(),
        body: Buffer.from(body, 'latin1'),
      };
      return { ...base, state, expiresAt: Number(expiresAt), outcome };
    }
  }
}

function partsOf(text: string, format: RegExp): RegExpExecArray {
  const parts = format.exec(text);
  if (parts === null) throw new Error(`Not a record of format 2: ${JSON.stringify(text)}`);
  return parts;
}
