import { createSecretKey } from 'node:crypto';
import {
  fingerprint,
  type DigestProtection,
  type IdempotencyEngine,
  type ProtocolOptions,
} from '../internals/core.js';
import { protocolOptions } from './protocol-options.js';

/** A digest key of 32 bytes, all alike; `none` stands for SHA-256. */
export const digestKey = (byte: number | 'none') =>
  byte === 'none' ? undefined : createSecretKey(Buffer.alloc(32, byte));

/** The digest keys of one process, the first for new records. */
export function protectedBy(
  bytes: readonly (number | 'none')[],
  scopeTagParts = Infinity,
): DigestProtection {
  const keys = bytes.map(digestKey);
  return { keys: () => keys, scopeTagParts };
}

type Received = Parameters<IdempotencyEngine['requestOf']>[0];

interface Given extends Partial<Omit<Received, 'options'>> {
  readonly content?: string;
  readonly options?: ProtocolOptions;
}

/** A request as a transport knows it: of Alice, with the key `one`. */
export function received({
  content = 'the payload',
  options = {},
  ...others
}: Given = {}): Received {
  return {
    operation: 'pay',
    keyOperation: 'pay',
    scope: ['alice'],
    key: 'one',
    fingerprint: fingerprint(['pay', content]),
    options: protocolOptions(options),
    ...others,
  };
}
