import { IdempotencyOptionsError } from './errors.js';
import { digest } from './fingerprint.js';
import type { RecordKey } from './record.js';

/** Keeps these digests apart from all others that have a record key in them. */
const PURPOSE = 'nestjs-idempotency/downstream';

/**
 * The key that an operation gives to a service that it calls: 43 characters of base64url, SHA-256 over the record key
 * and the name. All attempts at one record have the same one, and nobody can read the client's key from it.
 *
 * @throws {@link IdempotencyOptionsError} for a name that is no text, or empty.
 */
export function downstreamKey(operation: string, recordKey: RecordKey, name: string): string {
  if (typeof name !== 'string' || name === '') {
    throw new IdempotencyOptionsError(
      `downstreamKey() was called in ${operation} without a name: name the service and the call, such as downstreamKey('stripe/charge').`,
    );
  }
  return digest([PURPOSE, recordKey, name]);
}
