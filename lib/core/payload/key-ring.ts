import type { KeyObject } from 'node:crypto';
import { millisecondsOf } from '../options/duration.js';
import { asError, errorTypeOf, hasCode } from '../errors/errors.js';
import { error, ok, type Finding } from '../store/diagnosis/finding.js';
import type { Scope } from '../record/scope.js';
import type { Clock } from '../util/clock.js';
import { whenReady } from '../util/maybe-async.js';
import { loadedInTime } from './key-loading.js';
import { ScopeKeys } from './scope-keys.js';
import {
  checkedKeys,
  checkSameKey,
  type KeyById,
  type LoadedKeys,
  type SecretKeys,
} from './secret-keys.js';

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
  private readonly ofScopes: ScopeKeys | undefined;
  private digests: readonly (KeyObject | undefined)[] = [];

  /** @param onStale - is notified when a refresh fails. */
  constructor(
    private readonly secrets: SecretKeys,
    private readonly clock: Clock,
    private readonly onStale: (error: unknown) => void,
  ) {
    this.refreshMs = Number(millisecondsOf(secrets.refresh ?? '5m'));
    if (secrets.keyFor === undefined) return;
    const keyFor = secrets.keyFor.bind(secrets);
    const others = () => this.loaded?.keys ?? [];
    this.ofScopes = new ScopeKeys(keyFor, others, this.refreshMs, clock, onStale);
  }

  async open(): Promise<void> {
    this.closing = new AbortController();
    await this.load();
  }

  close(): void {
    this.closing.abort();
  }

  /** The digest keys, the first for new records; `undefined` stands for none. The same list until they are loaded again. */
  digestKeys(): readonly (KeyObject | undefined)[] {
    void this.refresh();
    if (this.digests.length === 0) throw new Error('The digest keys are not loaded yet.');
    return this.digests;
  }

  /** Whether {@link digestKeys} are among the keys that were loaded. */
  get hasDigestKeys(): boolean {
    return this.digests.length > 0;
  }

  /** The key that encrypts the outcomes of a scope. */
  keyFor(scope: Scope): KeyById | Promise<KeyById> {
    const { ofScopes } = this;
    if (ofScopes === undefined) return this.current();
    return whenReady(ofScopes.find(scope, undefined, this.closing.signal), (own) =>
      own === undefined ? this.current() : [own.id, own.key],
    );
  }

  /** The key that encrypts. */
  current(): KeyById {
    void this.refresh();
    const { current = '', keys } = this.loaded ?? {};
    const key = keys?.get(current);
    if (key === undefined) throw new Error('The encryption keys are not loaded yet.');
    return [current, key];
  }

  /**
   * The key of an id; of an unknown one after a refresh that is due: another process may have begun to use it.
   * @param scope - `undefined`: only keys of no scope.
   */
  find(id: string, scope?: Scope): KeyObject | undefined | Promise<KeyObject | undefined> {
    const refreshing = this.refresh();
    const key = this.loaded?.keys.get(id);
    if (key !== undefined) return key;
    if (refreshing === undefined) return this.findOfScope(id, scope);
    return refreshing.then(() => this.loaded?.keys.get(id) ?? this.findOfScope(id, scope));
  }

  private findOfScope(
    id: string,
    scope: Scope | undefined,
  ): KeyObject | undefined | Promise<KeyObject | undefined> {
    if (this.ofScopes === undefined || scope === undefined) return undefined;
    return whenReady(this.ofScopes.find(scope, id, this.closing.signal), (own) =>
      own?.id === id ? own.key : undefined,
    );
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
    this.dueAt = this.clock.now() + this.refreshMs;
    const load = (signal: AbortSignal) => this.secrets.load(signal);
    const given = await loadedInTime(load, this.clock, this.closing.signal);
    const loaded = this.kept(checkedKeys('secrets', given));
    const { keys, digestKeys = [] } = loaded;
    // Without them, records would be looked up by no name at all.
    if (this.hasDigestKeys && digestKeys.length === 0) {
      throw new Error('The source of the keys no longer gives digest keys.');
    }
    this.loaded = loaded;
    // Of an id that no key has, which stands for no key: undefined.
    this.digests = digestKeys.map((id) => keys.get(id));
  }

  /** With the objects of the last load for keys that are the same: what is derived from them stays in use. */
  private kept({ keys, ...others }: LoadedKeys): LoadedKeys {
    const last = this.loaded?.keys;
    const entries = [...keys].map(([id, key]) => {
      const known = last?.get(id);
      if (known !== undefined) checkSameKey('secrets', [id, key], [id, known]);
      return [id, known ?? key] as const;
    });
    return { ...others, keys: new Map(entries) };
  }
}
