import { scopeText } from '../record/record-key.js';
import type { Scope } from '../record/scope.js';
import type { Clock } from '../util/clock.js';
import { deleteOldest } from '../util/delete-oldest.js';
import { loadedInTime } from './key-loading.js';
import {
  checkedScopeKey,
  checkSameKey,
  type KeyById,
  type ScopeKey,
  type SecretKeys,
} from './secret-keys.js';

/** Callers whose keys are kept: as many as a reader keeps derived keys. */
const MAX_ENTRIES = 4_096;

interface Entry {
  readonly key: ScopeKey | undefined;
  readonly dueAt: number;
}

/** The keys of callers, of a source that has some. Each is asked for at a use, and again when that is due. */
export class ScopeKeys {
  /** The least recently loaded first. */
  private readonly entries = new Map<string, Entry>();
  private readonly loading = new Map<string, Promise<ScopeKey | undefined>>();

  /**
   * @param others - the keys of no scope.
   * @param onStale - is notified when a key cannot be loaded.
   */
  constructor(
    private readonly keyFor: NonNullable<SecretKeys['keyFor']>,
    private readonly others: () => Iterable<KeyById>,
    private readonly refreshMs: number,
    private readonly clock: Clock,
    private readonly onStale: (error: unknown) => void,
  ) {}

  /**
   * @param id - as in {@link SecretKeys.keyFor}.
   * @returns a promise that rejects where the source does, and has given no key before.
   */
  find(
    scope: Scope,
    id: string | undefined,
    closing: AbortSignal,
  ): ScopeKey | undefined | Promise<ScopeKey | undefined> {
    const name = `${id ?? ''} ${scopeText(scope)}`;
    const known = this.entries.get(name);
    if (known !== undefined && this.clock.now() < known.dueAt) return known.key;
    let loading = this.loading.get(name);
    if (loading === undefined) {
      loading = this.load(name, scope, id, closing, known).finally(() => this.loading.delete(name));
      this.loading.set(name, loading);
    }
    return loading;
  }

  private async load(
    name: string,
    scope: Scope,
    id: string | undefined,
    closing: AbortSignal,
    known: Entry | undefined,
  ): Promise<ScopeKey | undefined> {
    const dueAt = this.clock.now() + this.refreshMs;
    let key: ScopeKey | undefined;
    try {
      const load = (signal: AbortSignal) => this.keyFor(scope, id, signal);
      const given = await loadedInTime(load, this.clock, closing);
      key = checkedScopeKey('secrets.keyFor()', given, this.others());
      key = keptObject(key, known?.key);
    } catch (error) {
      if (!closing.aborted) this.onStale(error);
      if (known?.key === undefined) throw error;
      key = known.key;
    }
    // Another process may be about to use it.
    if (key === undefined && id !== undefined) this.entries.delete(name);
    else this.keep(name, { key, dueAt });
    return this.entries.get(name)?.key;
  }

  private keep(name: string, entry: Entry): void {
    const { entries } = this;
    entries.delete(name);
    entries.set(name, entry);
    deleteOldest(entries, MAX_ENTRIES);
  }
}

/** The object of the last time for a key that is the same: what is derived from it stays in use. */
function keptObject(key: ScopeKey | undefined, last: ScopeKey | undefined): ScopeKey | undefined {
  if (key === undefined || last?.id !== key.id) return key;
  checkSameKey('secrets.keyFor()', [key.id, key.key], [last.id, last.key]);
  return last;
}
