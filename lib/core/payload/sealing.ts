import {
  createCipheriv,
  createDecipheriv,
  createHmac,
  createSecretKey,
  type KeyObject,
} from 'node:crypto';
import type { FinishedState, Fingerprint, RecordKey } from '../record/record.js';
import type { Scope } from '../record/scope.js';
import { asBuffer } from '../util/as-buffer.js';
import type { Clock } from '../util/clock.js';
import { deleteOldest } from '../util/delete-oldest.js';
import {
  NONCE_BYTES,
  SALT_BYTES,
  TAG_BYTES,
  writeLatin1,
  type Frame,
  type SealHead,
} from './frame.js';
import type { KeyRing } from './key-ring.js';
import type { KeyById } from './secret-keys.js';
import { UnreadableOutcome } from './unreadable-outcome.js';

/** What an outcome belongs to. Sealed, it can be read as no other record's, request's or state's. */
export interface OutcomeBinding {
  readonly recordKey: RecordKey;
  readonly state: FinishedState;
  readonly fingerprint: Fingerprint;
  /** Whose key it may be; the record key stands for it in what is authenticated. */
  readonly scope?: Scope | undefined;
}

/** What an origin belongs to, which is sealed while its record is in progress. */
export interface OriginBinding extends Omit<OutcomeBinding, 'state' | 'scope'> {
  readonly state: 'in_progress';
}

const CIPHER = 'aes-256-gcm';
const CIPHER_OPTIONS = { authTagLength: TAG_BYTES } as const;

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

/** Callers with keys of their own that a process derives one from at a time. */
const MAX_SEALING = 1_024;

interface DerivedKey {
  readonly master: KeyObject;
  readonly key: KeyObject;
}

interface SaltedKey extends DerivedKey {
  readonly salt: Uint8Array;
}

interface SealingKey extends SaltedKey {
  readonly endsAt: number;
  sealsLeft: number;
}

interface BegunSeal {
  readonly head: SealHead;
  readonly key: KeyObject;
}

/**
 * Encrypts by AES-256-GCM. All keys are `KeyObject`s: with a Buffer, some versions of Node take three times as long.
 */
export class Sealing {
  /** By the id of its master. */
  private readonly sealingKeys = new Map<string, SealingKey>();
  /** By the id of its master and its salt; the least recently used first. */
  private readonly derived = new Map<string, DerivedKey>();
  private lastUsed: SaltedKey | undefined;
  private readonly nonces: RandomBytes;

  constructor(
    private readonly ring: KeyRing,
    private readonly clock: Clock,
  ) {
    this.nonces = new RandomBytes(NONCE_BYTES, clock);
  }

  /** The key that encrypts the outcomes of a scope. */
  keyFor(scope: Scope | undefined): KeyById | Promise<KeyById> {
    return scope === undefined ? this.ring.current() : this.ring.keyFor(scope);
  }

  /** What the next seal has in the frame's head, and the key for it. For one seal only, before another begins. */
  begin([keyId, master]: KeyById): BegunSeal {
    let current = this.sealingKeys.get(keyId);
    const isUsable =
      current?.master === master && current.sealsLeft > 0 && this.clock.now() < current.endsAt;
    if (current === undefined || !isUsable) current = this.renewed(keyId, master);
    current.sealsLeft -= 1;
    const { key, salt } = current;
    return { head: { keyId, salt, nonce: this.nonces.next() }, key };
  }

  private renewed(keyId: string, master: KeyObject): SealingKey {
    const { sealingKeys } = this;
    const salt = Buffer.alloc(SALT_BYTES);
    this.clock.randomFill(salt);
    const endsAt = this.clock.now() + MAX_AGE_MS;
    const renewed = { master, salt, key: derive(master, salt), endsAt, sealsLeft: MAX_SEALS };
    sealingKeys.delete(keyId);
    sealingKeys.set(keyId, renewed);
    deleteOldest(sealingKeys, MAX_SEALING);
    return renewed;
  }

  /** @throws {@link UnreadableOutcome} if the key is unknown, or anything has been changed. */
  open(
    head: SealHead,
    frame: Frame,
    binding: OutcomeBinding | OriginBinding,
  ): Buffer | Promise<Buffer> {
    const scope = 'scope' in binding ? binding.scope : undefined;
    const found = this.ring.find(head.keyId, scope);
    if (!(found instanceof Promise)) return this.openBy(found, head, frame, binding);
    // What the source rejects with was reported.
    const master = found.catch(() => undefined);
    return master.then((key) => this.openBy(key, head, frame, binding));
  }

  private openBy(
    master: KeyObject | undefined,
    head: SealHead,
    frame: Frame,
    binding: OutcomeBinding | OriginBinding,
  ): Buffer {
    if (master === undefined) throw new UnreadableOutcome('key');
    return unseal(this.derivedKey(master, head), head.nonce, frame, binding);
  }

  private derivedKey(master: KeyObject, { keyId, salt }: SealHead): KeyObject {
    const { derived, lastUsed } = this;
    // To move an entry to the end of a map costs a tenth of what decrypting does.
    if (lastUsed?.salt === salt && lastUsed.master === master) return lastUsed.key;
    const name = keyId + asBuffer(salt).toString('latin1');
    const known = derived.get(name);
    derived.delete(name);
    const found = known?.master === master ? known : { master, key: derive(master, salt) };
    derived.set(name, found);
    this.lastUsed = { ...found, salt };
    deleteOldest(derived, MAX_DERIVED);
    return found.key;
  }
}

/** Encrypts the content of a frame, whose head ends at `start`, and writes its tag to the end, for which there is room. */
export function seal(
  { key, head }: BegunSeal,
  frame: Buffer,
  start: number,
  binding: OutcomeBinding | OriginBinding,
): void {
  const cipher = createCipheriv(CIPHER, key, head.nonce, CIPHER_OPTIONS);
  cipher.setAAD(associated(frame, start, binding));
  const end = frame.length - TAG_BYTES;
  frame.set(cipher.update(frame.subarray(start, end)), start);
  cipher.final();
  frame.set(cipher.getAuthTag(), end);
}

function unseal(
  key: KeyObject,
  nonce: Uint8Array,
  { bytes, start }: Frame,
  binding: OutcomeBinding | OriginBinding,
): Buffer {
  const end = bytes.length - TAG_BYTES;
  if (end < start) throw new UnreadableOutcome('format');
  const decipher = createDecipheriv(CIPHER, key, nonce, CIPHER_OPTIONS);
  decipher.setAAD(associated(bytes, start, binding));
  decipher.setAuthTag(bytes.subarray(end));
  const clear = decipher.update(bytes.subarray(start, end));
  try {
    // Before any byte is used: only now it is known that they are the ones that were encrypted.
    decipher.final();
  } catch {
    throw new UnreadableOutcome('integrity');
  }
  return clear;
}

/** More than a head and the digests of a binding have. */
const SCRATCH_BYTES = 512;

const scratch = Buffer.alloc(SCRATCH_BYTES);
let lastView = scratch;

/**
 * What is authenticated besides the content. None of its parts can run into another: the head and the record key tell
 * their lengths, and a state has no colon.
 * @param frame - begins with `headBytes` of its head.
 * @returns bytes that are valid until the next call. A buffer for each call would double what a seal leaves behind.
 */
function associated(
  frame: Buffer,
  headBytes: number,
  binding: OutcomeBinding | OriginBinding,
): Buffer {
  const { recordKey, state, fingerprint } = binding;
  const before = `${recordKey.length}:`;
  const after = headBytes + before.length + recordKey.length;
  const bytes = scratchOf(after + state.length + 1 + fingerprint.length);
  for (let at = 0; at < headBytes; at += 1) bytes[at] = frame[at] ?? 0;
  writeLatin1(before, bytes, headBytes);
  writeLatin1(recordKey, bytes, headBytes + before.length);
  writeLatin1(state, bytes, after);
  writeLatin1(':', bytes, after + state.length);
  writeLatin1(fingerprint, bytes, after + state.length + 1);
  return bytes;
}

/** Nearly all have one of two lengths, by the word for the state. */
function scratchOf(length: number): Buffer {
  if (length > SCRATCH_BYTES) return Buffer.allocUnsafe(length);
  if (lastView.length !== length) lastView = scratch.subarray(0, length);
  return lastView;
}

function derive(master: KeyObject, salt: Uint8Array): KeyObject {
  return createSecretKey(createHmac('sha256', master).update(PURPOSE).update(salt).digest());
}

/** Random bytes of many calls, drawn at once, as drawing costs more than the bytes. Each is given out once. */
class RandomBytes {
  private readonly pool: Buffer;
  /** A copy of so few bytes costs less than a view of them. */
  private readonly drawn: Buffer;
  private used: number;

  constructor(
    private readonly length: number,
    private readonly clock: Clock,
  ) {
    this.pool = Buffer.alloc(length * 256);
    this.drawn = Buffer.alloc(length);
    this.used = this.pool.length;
  }

  /** Valid until the next call. */
  next(): Uint8Array {
    if (this.used === this.pool.length) {
      this.clock.randomFill(this.pool);
      this.used = 0;
    }
    const { pool, drawn, length, used } = this;
    for (let at = 0; at < length; at += 1) drawn[at] = pool[used + at] ?? 0;
    this.used += length;
    return drawn;
  }
}
