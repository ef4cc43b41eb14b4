import type { KeyObject } from 'node:crypto';
import { millisecondsOf } from '../options/duration.js';
import { asError, errorTypeOf, hasCode } from '../errors/errors.js';
import { error, ok, type Finding } from '../store/diagnosis/finding.js';
import type { Clock } from '../util/clock.js';
import { checkedKeys, type LoadedKeys, type SecretKeys } from './secret-keys.js';

const LOAD_TIMEOUT_MS = 10_000;

/**
 * The keys in use. A use of them loads them again, if that is due: not a timer, so that an idle process asks its KMS for
 * nothing.
 */
export class KeyRing {
  private loaded: LoadedKeys | undefined;
  private refreshing: Promise<void> | undefined;
  private dueAt = 0;
  private closing = new AbortController();
  private readonly refreshMs: number;

  /** @param onStale - is notified when a refresh fails. */
  constructor(
    private readonly secrets: SecretKeys,
    private readonly clock: Clock,
    private readonly onStale: (error: unknown) => void,
  ) {
    this.refreshMs = Number(millisecondsOf(secrets.refresh ?? '5m'));
  }

  async open(): Promise<void> {
    this.closing = new AbortController();
    await this.load();
  }

  close(): void {
    this.closing.abort();
  }

  /** The id of the key that encrypts, and the key. */
  current(): readonly [string, KeyObject] {
    void this.refresh();
    const { current = '', keys } = this.loaded ?? {};
    const key = keys?.get(current);
    if (key === undefined) throw new Error('The encryption keys are not loaded yet.');
    return [current, key];
  }

  /** The key of an id; of an unknown one after a refresh that is due: another process may have begun to use it. */
  find(id: string): KeyObject | undefined | Promise<KeyObject | undefined> {
    const refreshing = this.refresh();
    const key = this.loaded?.keys.get(id);
    if (key !== undefined || refreshing === undefined) return key;
    return refreshing.then(() => this.loaded?.keys.get(id));
  }

  /** Ids of keys only, and no message of the source, which may be a KMS's. */
  async diagnose(): Promise<Finding> {
    try {
      if (this.loaded === undefined) await this.load();
    } catch (failure) {
      const isOwn = hasCode(failure, 'idempotency_options_invalid');
      const why = isOwn ? asError(failure).message : `(${errorTypeOf(failure) ?? 'no error'})`;
      return error('keys', `The keys of "secrets" cannot be loaded ${why}`);
    }
    const { current = '', keys = new Map<string, KeyObject>() } = this.loaded ?? {};
    const others = [...keys.keys()].filter((id) => id !== current).map((id) => `"${id}"`);
    const also =
      others.length === 0 ? 'No other key decrypts.' : `Decrypts with ${others.join(', ')}, too.`;
    return ok('keys', `Encrypts with the key "${current}". ${also}`);
  }

  /** `undefined` if none is due or under way. Never rejects. */
  private refresh(): Promise<void> | undefined {
    const { signal } = this.closing;
    if (this.refreshing !== undefined || this.clock.now() < this.dueAt || signal.aborted) {
      return this.refreshing;
    }
    this.refreshing = this.load()
      .catch((error: unknown) => {
        if (!signal.aborted) this.onStale(error);
      })
      .finally(() => (this.refreshing = undefined));
    return this.refreshing;
  }

  private async load(): Promise<void> {
    const { clock } = this;
    this.dueAt = clock.now() + this.refreshMs;
    const abort = new AbortController();
    const stop = () => abort.abort(new Error('The encryption keys were not loaded in time.'));
    const timer = clock.setTimeout(stop, LOAD_TIMEOUT_MS, undefined);
    timer.unref();
    this.closing.signal.addEventListener('abort', stop);
    try {
      const loading = Promise.race([this.secrets.load(abort.signal), rejectionOf(abort.signal)]);
      this.loaded = this.kept(checkedKeys('secrets', await loading));
    } finally {
      clock.clearTimeout(timer);
      this.closing.signal.removeEventListener('abort', stop);
    }
  }

  /** With the objects of the last load for keys that are the same: what is derived from them stays in use. */
  private kept({ current, keys }: LoadedKeys): LoadedKeys {
    const last = this.loaded?.keys;
    const entries = [...keys].map(([id, key]) => {
      const known = last?.get(id);
      return [id, known?.equals(key) === true ? known : key] as const;
    });
    return { current, keys: new Map(entries) };
  }
}

function rejectionOf(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason as Error));
  });
}
