import type { OperationRequest } from '../operation/operation-request.js';
import type { Offloaded, StartedUpload } from '../payload/offload.js';
import type { LargeBody } from '../record/record.js';
import type { OpenTransaction } from '../transaction/unit-of-work.js';
import type { AttemptServices } from './attempt-services.js';
import { broken, readableAs, type UnreadableAs, type Uploading } from './packed-outcomes.js';

/** A body on its way into the blob store, before its outcome is known. */
export class UploadingBody implements Uploading {
  readonly settled: Promise<void>;
  isFailed = false;
  isGivenUp = false;
  isKept = false;
  private stored: Offloaded | undefined;

  constructor(
    private readonly services: AttemptServices,
    private readonly request: OperationRequest,
    private readonly started: StartedUpload,
    readonly transaction: OpenTransaction | undefined,
  ) {
    this.settled = started.done.then(
      (stored) => {
        this.stored = stored;
      },
      () => {
        this.isFailed = true;
      },
    );
  }

  get bytes(): number {
    return this.started.upload.bytes;
  }

  get done(): Promise<Offloaded> {
    return this.started.done;
  }

  onDrain(listener: () => void): void {
    this.started.upload.onDrain = listener;
  }

  write(chunk: Uint8Array): boolean {
    return this.started.upload.write(chunk);
  }

  end(): void {
    this.started.upload.end();
  }

  fail(error: unknown): void {
    this.isGivenUp ||= !this.isFailed;
    this.started.upload.fail(error);
  }

  async open(): Promise<LargeBody | UnreadableAs | 'not_kept'> {
    const { services, request, stored } = this;
    if (stored === undefined) return 'not_kept';
    const opened = await readableAs(services, request, () =>
      services.outcomes.openUploaded(
        stored,
        request.options.outcome.offload,
        broken(services, request),
      ),
    );
    if (typeof opened === 'string') return opened;
    return 'stream' in opened ? opened : 'not_kept';
  }

  discard(): void {
    if (this.stored !== undefined) void this.services.outcomes.discardUploaded(this.stored);
  }
}
