import {
  createCipheriv,
  createDecipheriv,
  createHmac,
  createSecretKey,
  type KeyObject,
} from 'node:crypto';
import type { FinishedState, Fingerprint, RecordKey } from '../record/record.js';
import { asBuffer } from '../util/as-buffer.js';
import type { Clock } from '../util/clock.js';
import { whenReady } from '../util/maybe-async.js';
import { NONCE_BYTES, SALT_BYTES, TAG_BYTES, type SealHead } from './frame.js';
import type { KeyRing } from './key-ring.js';
import { UnreadableOutcome } from './unreadable-outcome.js';

/** What an outcome belongs to. Sealed, it can be read as no other record's, request's or state's. */
export interface OutcomeBinding {
  readonly recordKey: RecordKey;
  readonly state: FinishedState;
  readonly fingerprint: Fingerprint;
}

const CIPHER = 'aes-256-gcm';

/** What the key is for. It ends with a zero byte, and the salt follows. */
const PURPOSE = 'nestjs-idempotency/2/outcome\0';

/**
 * With random nonces, a key of AES-GCM is good for 2^32 messages (NIST SP 800-38D §8.3), which one key for all processes
 * would reach within hours. So each process derives its own, and renews it long before.
 */
const MAX_SEALS = 2 ** 28;
const MAX_AGE_MS = 3_600_000;

/** Keys derived by other processes, which a reader derives again: of a hundred processes, those of a day. */
const MAX_DERIVED = 4_096;

interface DerivedKey {
  /** The id of its master and its salt. */
  readonly name: string;
  readonly master: KeyObject;
  readonly key: KeyObject;
}

interface SealingKey extends Omit<DerivedKey, 'name'> {
  readonly keyId: string;
  readonly salt: Uint8Array;
  readonly endsAt: number;
  sealsLeft: number;
}

/**
 * Encrypts by AES-256-GCM. All keys are `KeyObject`s: with a Buffer, some versions of Node take three times as long.
 */
export class Sealing {
  private sealingKey: SealingKey | undefined;
  /** The least recently used first. */
  private readonly derived = new Map<string, DerivedKey>();
  private lastUsed: DerivedKey | undefined;
  private readonly nonces: RandomBytes;

  constructor(
    private readonly ring: KeyRing,
    private readonly clock: Clock,
  ) {
    this.nonces = new RandomBytes(NONCE_BYTES, clock);
  }

  /** What the next seal has in the frame's head, and the key for it. For one seal only. */
  begin(): { readonly head: SealHead; readonly key: KeyObject } {
    const [keyId, master] = this.ring.current();
    let current = this.sealingKey;
    const isUsable =
      current?.master === master &&
      current.keyId === keyId &&
      current.sealsLeft > 0 &&
      this.clock.now() < current.endsAt;
    if (current === undefined || !isUsable) current = this.renewed(keyId, master);
    current.sealsLeft -= 1;
    const { key, salt } = current;
    return { head: { keyId, salt, nonce: this.nonces.next() }, key };
  }

  private renewed(keyId: string, master: KeyObject): SealingKey {
    const salt = Buffer.alloc(SALT_BYTES);
    this.clock.randomFill(salt);
    const endsAt = this.clock.now() + MAX_AGE_MS;
    const key = derive(master, salt);
    return (this.sealingKey = { keyId, master, salt, key, endsAt, sealsLeft: MAX_SEALS });
  }

  /** @throws {@link UnreadableOutcome} if the key is unknown, or anything has been changed. */
  open(
    head: SealHead,
    headBytes: Uint8Array,
    content: Buffer,
    binding: OutcomeBinding,
  ): Buffer | Promise<Buffer> {
    return whenReady(this.ring.find(head.keyId), (master) => {
      if (master === undefined) throw new UnreadableOutcome('key');
      return unseal(this.derivedKey(master, head), head.nonce, headBytes, content, binding);
    });
  }

  private derivedKey(master: KeyObject, { keyId, salt }: SealHead): KeyObject {
    const { derived, lastUsed } = this;
    const name = keyId + asBuffer(salt).toString('latin1');
    // Moving an entry to the end of a map costs a tenth of what decrypting does.
    if (lastUsed?.name === name && lastUsed.master === master) return lastUsed.key;
    const known = derived.get(name);
    derived.delete(name);
    const found = known?.master === master ? known : { name, master, key: derive(master, salt) };
    derived.set(name, found);
    this.lastUsed = found;
    if (derived.size > MAX_DERIVED) {
      for (const [oldest] of derived) {
        derived.delete(oldest);
        break;
      }
    }
    return found.key;
  }
}

/** @returns the content, encrypted, and its tag. */
export function seal(
  key: KeyObject,
  nonce: Uint8Array,
  headBytes: Uint8Array,
  content: Uint8Array,
  binding: OutcomeBinding,
): Buffer[] {
  const cipher = createCipheriv(CIPHER, key, nonce, { authTagLength: TAG_BYTES });
  cipher.setAAD(associated(headBytes, binding));
  const sealed = cipher.update(content);
  cipher.final();
  return [sealed, cipher.getAuthTag()];
}

function unseal(
  key: KeyObject,
  nonce: Uint8Array,
  headBytes: Uint8Array,
  content: Buffer,
  binding: OutcomeBinding,
): Buffer {
  const end = content.length - TAG_BYTES;
  if (end < 0) throw new UnreadableOutcome('format');
  const decipher = createDecipheriv(CIPHER, key, nonce, { authTagLength: TAG_BYTES });
  decipher.setAAD(associated(headBytes, binding));
  decipher.setAuthTag(content.subarray(end));
  const clear = decipher.update(content.subarray(0, end));
  try {
    // Before any byte is used: only now it is known that they are the ones that were encrypted.
    decipher.final();
  } catch {
    throw new UnreadableOutcome('integrity');
  }
  return clear;
}

/**
 * What is authenticated besides the content. None of its parts can run into another: the head and the record key tell
 * their lengths, and a state has no colon.
 */
function associated(headBytes: Uint8Array, binding: OutcomeBinding): Buffer {
  const { recordKey, state, fingerprint } = binding;
  const text = `${recordKey.length}:${recordKey}${state}:${fingerprint}`;
  const bytes = Buffer.allocUnsafe(headBytes.length + text.length);
  bytes.set(headBytes);
  // Digests in base64url, and a word.
  bytes.write(text, headBytes.length, 'latin1');
  return bytes;
}

function derive(master: KeyObject, salt: Uint8Array): KeyObject {
  return createSecretKey(createHmac('sha256', master).update(PURPOSE).update(salt).digest());
}

/** Random bytes of many calls, drawn at once, as drawing costs more than the bytes. Each is given out once. */
class RandomBytes {
  private readonly pool: Buffer;
  private used: number;

  constructor(
    private readonly length: number,
    private readonly clock: Clock,
  ) {
    this.pool = Buffer.alloc(length * 256);
    this.used = this.pool.length;
  }

  /** Valid until the next call. */
  next(): Uint8Array {
    if (this.used === this.pool.length) {
      this.clock.randomFill(this.pool);
      this.used = 0;
    }
    const start = this.used;
    this.used += this.length;
    return this.pool.subarray(start, this.used);
  }
}
