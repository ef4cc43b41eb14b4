import type { RecordKey } from './record.js';
import { recordKeyWithin, serviceText, type RecordIdentity } from './record-key.js';

/** Makes the digests that name an engine's records. */
export class Digests {
  private readonly prefix: string;

  /** @param service - `undefined`: applications that share a store, and name operations alike, share records. */
  constructor(readonly service: string | undefined) {
    this.prefix = serviceText(service);
  }

  recordKey(identity: Omit<RecordIdentity, 'service'>): RecordKey {
    return recordKeyWithin(this.prefix, identity);
  }
}
