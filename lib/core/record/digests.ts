import type { RecordKey } from './record.js';
import { recordKeyWithin, serviceText } from './record-key.js';
import type { Scope } from './scope.js';

/** Makes the digests that name an engine's records. */
export class Digests {
  private readonly prefix: string;

  /** @param service - `undefined`: applications that share a store, and name operations alike, share records. */
  constructor(readonly service: string | undefined) {
    this.prefix = serviceText(service);
  }

  /** @param operation - `undefined` if the key is unique across all operations of its scope. */
  recordKey(scope: Scope, operation: string | undefined, key: string): RecordKey {
    return recordKeyWithin(this.prefix, scope, operation, key);
  }
}
