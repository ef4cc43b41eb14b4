import type { Outcome } from '../record/record.js';
import { bytesOf } from '../record/record.js';
import type { Clock } from '../util/clock.js';
import { whenReady } from '../util/maybe-async.js';
import { compress, inflate, NO_DICTIONARIES, type Dictionaries } from './compression.js';
import {
  decodeContent,
  decodeFrame,
  encodeContent,
  encodeHead,
  FRAME_HEADER,
  MAX_CLEAR_BYTES,
  type CompressionHead,
  type Frame,
} from './frame.js';
import { KeyRing } from './key-ring.js';
import type { ResolvedPackOptions } from './pack-options.js';
import { seal, Sealing, type OutcomeBinding } from './sealing.js';
import type { SecretKeys } from './secret-keys.js';
import { UnreadableOutcome } from './unreadable-outcome.js';

export type { OutcomeBinding } from './sealing.js';
export { FRAME_HEADER } from './frame.js';
export { UnreadableOutcome } from './unreadable-outcome.js';

/** Between the engine, which has an outcome in clear, and the store, which may have it compressed and encrypted. */
export class OutcomeTransform {
  private readonly ring: KeyRing | undefined;
  private readonly sealing: Sealing | undefined;

  /**
   * @param onStale - is notified when keys cannot be loaded again; those of the last time stay in use.
   * @param dictionaries - all that stored outcomes may be compressed with.
   */
  constructor(
    secrets: SecretKeys | undefined,
    clock: Clock,
    onStale: (error: unknown) => void = ignore,
    private readonly dictionaries: Dictionaries = NO_DICTIONARIES,
  ) {
    if (secrets === undefined) return;
    this.ring = new KeyRing(secrets, clock, onStale);
    this.sealing = new Sealing(this.ring, clock);
  }

  /** Whether there are keys. */
  get canEncrypt(): boolean {
    return this.sealing !== undefined;
  }

  /** Loads the keys. Rejects with an {@link IdempotencyOptionsError}, or what the source of the keys rejects with. */
  async open(): Promise<void> {
    await this.ring?.open();
  }

  close(): void {
    this.ring?.close();
  }

  /** The same object if nothing is on, or nothing is gained. */
  pack(
    outcome: Outcome,
    binding: OutcomeBinding,
    { compression, encryption = true }: ResolvedPackOptions,
  ): Outcome | Promise<Outcome> {
    const sealing = encryption ? this.sealing : undefined;
    const bytes = bytesOf(outcome);
    const isTried =
      compression !== false && bytes >= compression.thresholdBytes && bytes + 4 <= MAX_CLEAR_BYTES;
    // What looks like a frame, but is none, would not be read as what it is.
    const isFramed = sealing !== undefined || outcome.header === FRAME_HEADER;
    if (!isTried && !isFramed) return outcome;
    const clear = encodeContent(outcome);
    if (!isTried) return frameOf(clear, undefined, sealing, binding);
    const { algorithm } = compression;
    const dictionary = algorithm === 'deflate' ? this.dictionaries.write : undefined;
    return whenReady(compress(clear, compression, dictionary), (compressed) => {
      if (compressed === undefined) {
        return isFramed ? frameOf(clear, undefined, sealing, binding) : outcome;
      }
      const head = { algorithm, clearBytes: clear.length, ...(dictionary && { dictionary }) };
      return frameOf(compressed, head, sealing, binding);
    });
  }

  /**
   * The same object if it is no frame.
   * @throws {@link UnreadableOutcome}
   */
  unpack(outcome: Outcome, binding: OutcomeBinding): Outcome | Promise<Outcome> {
    if (outcome.header !== FRAME_HEADER) return outcome;
    const frame = decodeFrame(outcome.body);
    const { compression, isPointer } = frame.head;
    if (isPointer) throw new UnreadableOutcome('format');
    return whenReady(this.unsealed(frame, binding), (content) =>
      compression === undefined
        ? decodeContent(content)
        : whenReady(inflate(content, compression, this.dictionaries), decodeContent),
    );
  }

  private unsealed({ head, headBytes, content }: Frame, binding: OutcomeBinding) {
    if (head.seal === undefined) return content;
    if (this.sealing === undefined) throw new UnreadableOutcome('key');
    return this.sealing.open(head.seal, headBytes, content, binding);
  }
}

function frameOf(
  content: Buffer,
  compression: CompressionHead | undefined,
  sealing: Sealing | undefined,
  binding: OutcomeBinding,
): Outcome {
  const { head, key } = sealing?.begin() ?? {};
  const headBytes = encodeHead({ seal: head, compression, isPointer: false });
  const parts = head && key ? seal(key, head.nonce, headBytes, content, binding) : [content];
  return { header: FRAME_HEADER, body: Buffer.concat([headBytes, ...parts]) };
}

function ignore(): void {
  // Nobody is interested.
}
