import {
  IdempotencyStore,
  StoreUnavailableError,
  type Begin,
  type BeginReply,
  type Complete,
  type CompleteReply,
  type Extend,
  type ExtendReply,
  type IdempotencyRecord,
  type Inspect,
  type Lease,
  type RecordKey,
  type Release,
  type ReleaseReply,
  type StoreWarning,
} from 'nestjs-idempotency';

/** A store whose line the suite can cut, and mend. */
export class SeverableStore extends IdempotencyStore {
  isCut = false;

  constructor(private readonly store: IdempotencyStore) {
    super();
  }

  override open(): Promise<readonly StoreWarning[]> {
    return this.store.open();
  }

  override begin(command: Begin): Promise<BeginReply> {
    return this.through(() => this.store.begin(command));
  }

  override extend(lease: Lease, command: Extend): Promise<ExtendReply> {
    return this.through(() => this.store.extend(lease, command));
  }

  override complete(lease: Lease, command: Complete): Promise<CompleteReply> {
    return this.through(() => this.store.complete(lease, command));
  }

  override release(lease: Lease, command: Release): Promise<ReleaseReply> {
    return this.through(() => this.store.release(lease, command));
  }

  override inspect(recordKey: RecordKey, command: Inspect): Promise<IdempotencyRecord | undefined> {
    return this.through(() => this.store.inspect(recordKey, command));
  }

  override close(): Promise<void> {
    return this.store.close();
  }

  private through<Reply>(send: () => Promise<Reply>): Promise<Reply> {
    return this.isCut ? Promise.reject(new StoreUnavailableError('the line is cut')) : send();
  }
}
