import { createHash, randomUUID } from 'node:crypto';
import { access, mkdir, open, readdir, rename, rm, stat, statfs, unlink } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import type { Readable } from 'node:stream';
import {
  asError,
  errorTypeOf,
  IdempotencyOptionsError,
  StoreConfigurationError,
} from '../../core/errors/errors.js';
import {
  flag,
  isText,
  of,
  resolveOptions,
  type Defaulted,
  type Schema,
} from '../../core/options/option-schema.js';
import {
  BLOB_CLASSES,
  BlobStore,
  BlobUnavailableError,
  type BlobName,
  type GetOptions,
  type PutHints,
} from '../../core/payload/blob-store.js';
import { diagnoseBlobs } from '../../core/payload/diagnose-blobs.js';
import type { StoreWarning } from '../../core/record/store-warning.js';
import type { Finding, Place } from '../../core/store/diagnosis/finding.js';
import { nodeClock } from '../../core/util/clock.js';
import { jittered } from '../../core/util/time.js';
import { probeBlobs } from '../shared/probe-blobs.js';
import { withSource, type BlobSource } from '../shared/blob-source.js';

/** Options of {@link fileBlobs}. */
export interface FileBlobsOptions {
  /**
   * The folder, which the store creates, for its files alone. Every process that replays must reach it: several machines
   * share it by NFS, exported with `sync`.
   * @defaultValue none: required
   */
  readonly directory: string;

  /**
   * Whether a put waits until the file and its folder are on the disk. Without it, a crash of the machine loses bodies
   * whose records survive: their retries get "response not kept".
   * @defaultValue true
   */
  readonly fsync?: boolean | undefined;
}

type Given = Partial<FileBlobsOptions>;

export const FILE_BLOBS: Schema<Given, Defaulted<Given, 'fsync'>> = {
  directory: of('a path', isText, { defaultText: 'none: required' }),
  fsync: flag(true),
};

const DAY_MS = 86_400_000;
const SWEEP_MS = 3_600_000;
/** An upload is over long before. */
const TEMPORARY_MS = DAY_MS;
/** What is left when it ends has to last until an operator reads the warning: on a small disk, and on a large one. */
const LEAST_FREE_BYTES = 1024 ** 3;
const LEAST_FREE_SHARE = 0.05;

const MIB = 1024 ** 2;

const DAY = /^\d{4}-\d{2}-\d{2}$/;

/**
 * Keeps each blob in a file: on the disk of one machine, or in a folder that machines share by NFS. Needs no package.
 * @example
 * ```ts
 * const blobs = fileBlobs({ directory: '/var/lib/shop/outcomes' });
 * ```
 * @throws {@link IdempotencyOptionsError} when an option is invalid.
 */
export function fileBlobs(options: FileBlobsOptions): BlobStore {
  const { directory, fsync } = resolveOptions('fileBlobs', FILE_BLOBS, options);
  if (directory === undefined) {
    throw new IdempotencyOptionsError('fileBlobs: directory is required.');
  }
  return new FileBlobs(resolve(directory), fsync);
}

/**
 * A file is `{class}/{day of its expiry}/{digest of its name}`: a day is deleted as a whole. It is written in `tmp` of the
 * same file system and renamed when it is complete, so that no reader sees a part of it.
 */
class FileBlobs extends BlobStore {
  readonly id = 'file';
  private readonly temporary: string;
  private timer: NodeJS.Timeout | undefined;
  private openings = 0;

  constructor(
    private readonly directory: string,
    private readonly fsync: boolean,
  ) {
    super();
    this.temporary = join(directory, 'tmp');
  }

  override async open(): Promise<readonly StoreWarning[]> {
    const warnings: StoreWarning[] = [];
    try {
      await mkdir(this.temporary, { recursive: true });
      await probeBlobs(this);
      warnings.push(...(await this.checkFreeSpace()));
      await this.sweepAndReport();
    } catch (error) {
      warnings.push(startWarning(error));
    }
    this.openings += 1;
    if (this.openings === 1) this.scheduleSweep();
    return warnings;
  }

  override put(name: BlobName, stream: Readable, hints: PutHints): Promise<void> {
    return withSource(stream, hints, async (source) => {
      const { retentionClass, file } = placeOf(name);
      const folder = join(this.directory, retentionClass, dayOf(hints.expiresAt));
      const temporary = join(this.temporary, randomUUID());
      try {
        await this.write(temporary, source);
        const created = await mkdir(folder, { recursive: true });
        source.throwIfFailed();
        await rename(temporary, join(folder, file));
        if (this.fsync) await syncFolders(folder, created);
      } catch (error) {
        // The caller hears of the failure, and the sweep deletes what stays.
        await unlink(temporary).catch(() => undefined);
        throw unavailable(error);
      }
    });
  }

  override async get(
    name: BlobName,
    { offset = 0, signal }: GetOptions,
  ): Promise<Readable | undefined> {
    signal.throwIfAborted();
    try {
      for await (const path of this.pathsOf(name)) {
        const handle = await ifPresent(open(path, 'r'));
        if (handle !== undefined) return handle.createReadStream({ start: offset, signal });
      }
      // Where the file system is not mounted, nothing is known of its files.
      await access(this.temporary);
      return undefined;
    } catch (error) {
      throw unavailable(error);
    }
  }

  override async delete(name: BlobName): Promise<void> {
    try {
      for await (const path of this.pathsOf(name)) await rm(path, { force: true });
    } catch (error) {
      throw unavailable(error);
    }
  }

  override diagnose(): AsyncIterable<Finding> {
    return diagnoseBlobs(this, PLACES, {
      disk: async () => {
        const { free, total } = await this.space();
        return `${spaceText(free, total)} are free.`;
      },
    });
  }

  override close(): Promise<void> {
    this.openings = Math.max(0, this.openings - 1);
    if (this.openings === 0) clearTimeout(this.timer);
    return Promise.resolve();
  }

  /** The places of a blob, one for each day on which it may expire; the latest first, as most are read soon. */
  private async *pathsOf(name: BlobName): AsyncGenerator<string, void, undefined> {
    const { retentionClass, file } = placeOf(name);
    const folder = join(this.directory, retentionClass);
    for (const day of (await daysIn(folder)).reverse()) yield join(folder, day, file);
  }

  private async write(path: string, source: BlobSource): Promise<void> {
    const handle = await open(path, 'wx', 0o600);
    try {
      for await (const bytes of source) await handle.writeFile(bytes);
      if (this.fsync) await handle.sync();
    } finally {
      await handle.close();
    }
  }

  private scheduleSweep(): void {
    const sweep = async () => {
      await this.sweepAndReport();
      if (this.openings > 0) this.scheduleSweep();
    };
    clearTimeout(this.timer);
    // Several processes need not delete the same at once.
    this.timer = setTimeout(() => void sweep(), jittered(SWEEP_MS, nodeClock)).unref();
  }

  /** Never rejects: the next round deletes what is left. */
  private async sweepAndReport(): Promise<void> {
    try {
      await this.sweep();
    } catch (error) {
      process.emitWarning(`fileBlobs: expired blobs are not deleted (${reasonOf(error)}).`, {
        type: 'IdempotencyWarning',
        code: 'IDEMPOTENCY_BLOBS_NOT_DELETED',
      });
    }
  }

  /** Deletes the days that ended a day ago, since clocks differ, and what an ended process has left of its puts. */
  private async sweep(): Promise<void> {
    const now = nodeClock.wallTime();
    const expired = new Date(now - 2 * DAY_MS).toISOString();
    for (const days of BLOB_CLASSES) {
      const folder = join(this.directory, `d${String(days)}`);
      for (const day of await daysIn(folder)) {
        if (day > expired) continue;
        await rm(join(folder, day), { recursive: true, force: true });
      }
    }
    for (const name of await readdir(this.temporary)) {
      const path = join(this.temporary, name);
      const { mtimeMs } = (await ifPresent(stat(path))) ?? { mtimeMs: now };
      if (now - mtimeMs > TEMPORARY_MS) await rm(path, { force: true });
    }
  }

  private async checkFreeSpace(): Promise<StoreWarning[]> {
    const { free, total } = await this.space();
    return spaceWarnings(free, total);
  }

  /** Bytes. */
  private async space(): Promise<{ readonly free: number; readonly total: number }> {
    const { bavail, blocks, bsize } = await statfs(this.directory);
    return { free: bavail * bsize, total: blocks * bsize };
  }
}

const PLACES: Readonly<Record<string, Place>> = { blobs_disk_nearly_full: ['disk', 'warning'] };

/** @param free - bytes, and so are all of the disk. */
export function spaceWarnings(free: number, total: number): StoreWarning[] {
  if (free >= LEAST_FREE_BYTES && free >= total * LEAST_FREE_SHARE) return [];
  return [
    {
      code: 'blobs_disk_nearly_full',
      message: `The disk of fileBlobs has ${spaceText(free, total)} left. Without space, large outcomes are not kept. Free disk space, or shorten outcome.retention or outcome.bodyRetention.`,
    },
  ];
}

function spaceText(free: number, total: number): string {
  const percent = Math.floor((100 * free) / total);
  return `${Math.floor(free / MIB)} of ${Math.floor(total / MIB)} MiB (${percent} %)`;
}

/** The digest keeps names apart where a file system ignores case, and away from what has a meaning in a path. */
function placeOf(name: BlobName): { readonly retentionClass: string; readonly file: string } {
  const retentionClass = BLOB_CLASSES.map((days) => `d${String(days)}`).find((each) =>
    name.startsWith(`${each}/`),
  );
  if (retentionClass === undefined) throw new TypeError('fileBlobs: the name is no blobName().');
  return { retentionClass, file: createHash('sha256').update(name).digest('hex') };
}

function dayOf(instant: Date): string {
  return instant.toISOString().slice(0, 'yyyy-mm-dd'.length);
}

/** In order; none if there is no such folder. */
async function daysIn(folder: string): Promise<string[]> {
  const names = (await ifPresent(readdir(folder))) ?? [];
  return names.filter((name) => DAY.test(name)).sort();
}

/** @returns `undefined` if the file or folder does not exist. */
async function ifPresent<Found>(found: Promise<Found>): Promise<Found | undefined> {
  try {
    return await found;
  } catch (error) {
    if (isSystemError(error) && error.code === 'ENOENT') return undefined;
    throw error;
  }
}

/** The folder of a new file, and each of those that were created for it: each stands in the one above. */
async function syncFolders(folder: string, created: string | undefined): Promise<void> {
  const last = created === undefined ? folder : dirname(created);
  for (let each = folder; ; each = dirname(each)) {
    const handle = await open(each, 'r');
    await handle.sync().finally(() => handle.close());
    if (each === last) return;
  }
}

function isSystemError(error: unknown): error is NodeJS.ErrnoException & { readonly code: string } {
  return (
    typeof error === 'object' &&
    error !== null &&
    'syscall' in error &&
    'code' in error &&
    typeof error.code === 'string'
  );
}

const REMEDIES: Readonly<Record<string, string>> = {
  ENOSPC: 'Free disk space.',
  EDQUOT: "Raise the user's quota.",
  EFBIG:
    'A file may not be so large: raise the limit of the process (ulimit -f), use another file system, or lower outcome.offload.maxBytes.',
  EACCES: 'Let the user of the process read and write in the folder.',
  EPERM: 'Let the user of the process read and write in the folder.',
  EROFS: 'The file system is mounted read-only.',
  EMFILE: 'Raise the limit of open files.',
  ENOENT: 'The folder is gone, or its file system is not mounted.',
  ESTALE: 'The NFS server has lost the folder: mount it again.',
};

/** Of what the user of the process lacks, and no retry can cure. */
const MISCONFIGURED: ReadonlySet<string> = new Set(['EACCES', 'EPERM', 'EROFS', 'ENOTDIR']);

function startWarning(error: unknown): StoreWarning {
  const failure = unavailable(error);
  const { code = '' } = (failure.cause ?? {}) as { readonly code?: string };
  if (MISCONFIGURED.has(code)) throw new StoreConfigurationError(failure.message);
  return { code: 'blobs_unreachable', message: failure.message, isOutage: true };
}

/** Without the message of the system, which has the path. */
function reasonOf(error: unknown): string {
  return errorTypeOf(error) ?? 'unknown';
}

function unavailable(error: unknown): Error {
  if (!isSystemError(error)) return asError(error);
  const { code, syscall = 'the file system' } = error;
  const remedy = REMEDIES[code];
  const message = `fileBlobs: ${syscall} failed with ${code}.`;
  return new BlobUnavailableError(remedy === undefined ? message : `${message} ${remedy}`, {
    cause: error,
  });
}
