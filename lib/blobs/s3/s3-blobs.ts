import { addAbortSignal, Readable } from 'node:stream';
import type { GetObjectCommandOutput } from '@aws-sdk/client-s3';
import { IdempotencyOptionsError, StoreConfigurationError } from '../../core/errors/errors.js';
import {
  flag,
  integer,
  isText,
  of,
  resolveOptions,
  type Defaulted,
  type Schema,
} from '../../core/options/option-schema.js';
import {
  BlobStore,
  BlobUnavailableError,
  type BlobName,
  type GetOptions,
  type PutHints,
} from '../../core/payload/blob-store.js';
import { diagnoseBlobs } from '../../core/payload/diagnose-blobs.js';
import type { StoreWarning } from '../../core/record/store-warning.js';
import type { Finding, Place } from '../../core/store/diagnosis/finding.js';
import { withSource, type BlobSource } from '../shared/blob-source.js';
import { probeBlobs } from '../shared/probe-blobs.js';
import { lifecycleWarnings } from './lifecycle.js';
import { loadSdk, type S3BlobClient, type Sdk } from './s3-client.js';
import { failureOf, unavailable } from './s3-failure.js';

/** Options of {@link s3Blobs}. */
export interface S3BlobsOptions {
  /**
   * An `S3Client` of `@aws-sdk/client-s3`, of the application, which the store does not destroy. It has region,
   * credentials, timeouts and retries: set `requestTimeout` of its request handler. For servers that refuse today's
   * checksums: `requestChecksumCalculation: 'WHEN_REQUIRED'`.
   * @defaultValue none: required
   */
  readonly client: S3BlobClient;

  /**
   * The bucket, which exists. Its lifecycle rules delete what has expired: see the reference, "Blob stores".
   * @defaultValue none: required
   */
  readonly bucket: string;

  /**
   * What the keys of all objects begin with. Applications that share a bucket need different ones.
   * @defaultValue 'idem/'
   */
  readonly prefix?: string | undefined;

  /**
   * Size of a part, in bytes. A smaller blob is one request. A blob of 5 TiB would need parts of 525 MiB.
   * @defaultValue 8_388_608, from 5_242_880 to 5_368_709_120
   */
  readonly partBytes?: number | undefined;

  /**
   * How many parts of a blob are uploaded at a time. A put holds about `partBytes × (partsInFlight + 1)` bytes.
   * @defaultValue 2, from 1 to 16
   */
  readonly partsInFlight?: number | undefined;

  /**
   * Whether uploads are conditional (`If-None-Match: *`), so that a late one replaces nothing. The start tries it, and
   * goes on without it where the server ignores or refuses it.
   * @defaultValue true
   */
  readonly ifNoneMatch?: boolean | undefined;
}

type Given = Partial<S3BlobsOptions>;

const MIB = 1024 * 1024;

export const S3_BLOBS: Schema<
  Given,
  Defaulted<Given, 'prefix' | 'partBytes' | 'partsInFlight' | 'ifNoneMatch'>
> = {
  client: of('an S3Client', isClient, { defaultText: 'none: required' }),
  bucket: of('the name of a bucket', isText, { defaultText: 'none: required' }),
  prefix: of('a string that does not begin with "/"', isPrefix, { default: 'idem/' }),
  // S3's own bounds.
  partBytes: integer({ default: 8 * MIB, min: 5 * MIB, max: 5_120 * MIB }),
  partsInFlight: integer({ default: 2, min: 1, max: 16 }),
  ifNoneMatch: flag(true),
};

function isClient(value: unknown): boolean {
  return (
    typeof value === 'object' &&
    value !== null &&
    'send' in value &&
    typeof value.send === 'function' &&
    'config' in value
  );
}

function isPrefix(value: unknown): boolean {
  return typeof value === 'string' && !value.startsWith('/');
}

type Options = Defaulted<S3BlobsOptions>;

/**
 * Keeps each blob in an object of Amazon S3, or of a server that speaks its protocol. Requires `@aws-sdk/client-s3` and
 * `@aws-sdk/lib-storage`.
 * @example
 * ```ts
 * const blobs = s3Blobs({ client: new S3Client({ region: 'eu-central-1' }), bucket: 'shop-outcomes' });
 * ```
 * @throws {@link IdempotencyOptionsError} when an option is invalid. When a package is not installed, `open()` throws it.
 */
export function s3Blobs(options: S3BlobsOptions): BlobStore {
  const { client, bucket, ...others } = resolveOptions('s3Blobs', S3_BLOBS, options);
  if (client === undefined || bucket === undefined) {
    throw new IdempotencyOptionsError('s3Blobs: client and bucket are required.');
  }
  return new S3Blobs({ client, bucket, ...others });
}

/** Of a multipart upload. */
const MOST_PARTS = 10_000;

/** The upload has failed by then: its caller waits for this. */
const ABORT_TIMEOUT_MS = 5_000;

const PUT = 's3:PutObject and s3:AbortMultipartUpload';
/** Without the right to list, S3 says of an absent object that access is denied. */
const GET = 's3:GetObject, and s3:ListBucket on the bucket,';
const DELETE = 's3:DeleteObject';

const PLACES: Readonly<Record<string, Place>> = {
  blobs_lifecycle_missing: ['lifecycle', 'warning'],
  blobs_lifecycle_short: ['lifecycle', 'error'],
  blobs_uploads_stay: ['lifecycle', 'warning'],
  blobs_lifecycle_not_checked: ['lifecycle', 'warning'],
  blobs_not_conditional: ['conditions', 'warning'],
};

class S3Blobs extends BlobStore {
  readonly id = 's3';
  private sdk: Promise<Sdk> | undefined;
  private isConditional: boolean;

  constructor(private readonly options: Options) {
    super();
    this.isConditional = options.ifNoneMatch;
  }

  override async open(): Promise<readonly StoreWarning[]> {
    await this.loaded();
    try {
      return [...(await this.probe()), ...(await this.checkLifecycle())];
    } catch (error) {
      const { cause, message } = error as Error;
      const { name, status } = failureOf(cause);
      if (name === 'NoSuchBucket' || status === 403) throw new StoreConfigurationError(message);
      return [{ code: 'blobs_unreachable', message, isOutage: true }];
    }
  }

  override put(name: BlobName, stream: Readable, hints: PutHints): Promise<void> {
    return withSource(stream, hints, async (source) => {
      const sdk = await this.loaded();
      try {
        await this.upload(sdk, name, source, hints);
      } catch (error) {
        source.throwIfFailed();
        if (!(await this.hasStored(sdk, name, source, error))) {
          throw unavailable(error, this.options.bucket, PUT);
        }
      }
      source.throwIfFailed();
    });
  }

  override async get(
    name: BlobName,
    { offset = 0, signal }: GetOptions,
  ): Promise<Readable | undefined> {
    signal.throwIfAborted();
    const { s3 } = await this.loaded();
    const range = offset === 0 ? {} : { Range: `bytes=${offset}-` };
    try {
      const command = new s3.GetObjectCommand({ ...this.placeOf(name), ...range });
      const { Body, ContentRange } = (await this.send(command, signal)) as GetObjectCommandOutput;
      const body = Body as Readable;
      if (offset > 0 && ContentRange?.startsWith(`bytes ${offset}-`) !== true) {
        body.destroy();
        throw new BlobUnavailableError('s3Blobs: the server ignores the range of a request.');
      }
      return addAbortSignal(signal, body);
    } catch (error) {
      signal.throwIfAborted();
      const failure = failureOf(error);
      if (failure.status === 416) return Readable.from([]);
      if (failure.status === 404 && failure.name !== 'NoSuchBucket') return undefined;
      throw error instanceof BlobUnavailableError
        ? error
        : unavailable(error, this.options.bucket, GET);
    }
  }

  override async delete(name: BlobName): Promise<void> {
    const { s3 } = await this.loaded();
    try {
      await this.send(new s3.DeleteObjectCommand(this.placeOf(name)));
    } catch (error) {
      const { name: code, status } = failureOf(error);
      if (status === 404 && code !== 'NoSuchBucket') return;
      throw unavailable(error, this.options.bucket, DELETE);
    }
  }

  override diagnose(): AsyncIterable<Finding> {
    const { bucket, prefix } = this.options;
    return diagnoseBlobs(this, PLACES, {
      lifecycle: `The rules of the bucket ${bucket} expire each class below ${prefix}, and end incomplete uploads.`,
      conditions: this.options.ifNoneMatch
        ? 'The server honours If-None-Match: a late upload replaces nothing.'
        : 'Uploads are not conditional, as ifNoneMatch: false says.',
    });
  }

  override close(): Promise<void> {
    return Promise.resolve();
  }

  private loaded(): Promise<Sdk> {
    return (this.sdk ??= loadSdk());
  }

  private placeOf(name: BlobName): { readonly Bucket: string; readonly Key: string } {
    return { Bucket: this.options.bucket, Key: `${this.options.prefix}${name}` };
  }

  private get condition(): { readonly IfNoneMatch?: '*' } {
    return this.isConditional ? { IfNoneMatch: '*' } : {};
  }

  private send(command: object, abortSignal?: AbortSignal): Promise<unknown> {
    const { client } = this.options;
    return client.send(command as never, abortSignal && { abortSignal });
  }

  /**
   * Uploads in parts, of which one alone is a PutObject; each is sent as a buffer, which the client can send again. The
   * abort of lib-storage rejects before it has deleted the parts, and lets running requests end: so it is the source that
   * ends an upload, and each request has the signal.
   */
  private async upload(
    { s3, Upload }: Sdk,
    name: BlobName,
    source: BlobSource,
    { bytes = 0, signal }: PutHints,
  ): Promise<void> {
    const { client, partBytes, partsInFlight } = this.options;
    const send = async (command: object) => {
      const isAbort = command instanceof s3.AbortMultipartUploadCommand;
      try {
        return await this.send(command, isAbort ? AbortSignal.timeout(ABORT_TIMEOUT_MS) : signal);
      } catch (error) {
        // The other parts would still be uploaded.
        if (!isAbort && !isThere(error)) source.fail(unavailable(error, this.options.bucket, PUT));
        throw error;
      }
    };
    const upload = new Upload({
      client: { config: client.config, send } as never,
      params: { ...this.placeOf(name), ...this.condition, Body: Readable.from(source) },
      partSize: Math.max(partBytes, Math.ceil(bytes / MOST_PARTS)),
      queueSize: partsInFlight,
    });
    await upload.done();
  }

  /** Whether the blob is there, of the same length: the client has sent a request again whose response was lost. */
  private async hasStored(
    { s3 }: Sdk,
    name: BlobName,
    { bytes }: BlobSource,
    error: unknown,
  ): Promise<boolean> {
    if (!isThere(error)) return false;
    try {
      const found = await this.send(new s3.HeadObjectCommand(this.placeOf(name)));
      return (found as { readonly ContentLength?: number }).ContentLength === bytes;
    } catch (failure) {
      if (failureOf(failure).status === 404) return false;
      throw unavailable(failure, this.options.bucket, GET);
    }
  }

  /** The start's own blob. Switches conditions off where the server ignores them, or does not know them. */
  private async probe(): Promise<StoreWarning[]> {
    let isHonoured = !this.isConditional;
    try {
      await probeBlobs(this, async (name, bytes, signal) => {
        isHonoured ||= await this.refusesAgain(name, bytes, signal);
      });
      if (isHonoured) return [];
      this.isConditional = false;
    } catch (error) {
      const isUnknown = failureOf((error as Error).cause).status === 501;
      if (!isUnknown || !this.isConditional) throw error;
      this.isConditional = false;
      await probeBlobs(this);
    }
    return [
      {
        code: 'blobs_not_conditional',
        message:
          'The server of s3Blobs does not know If-None-Match: uploads are not conditional, and a late one may replace the same blob. Its bytes are compared at each replay. Set ifNoneMatch: false to end this warning.',
      },
    ];
  }

  /** Whether the server refuses to store what is there, as `If-None-Match` asks. */
  private async refusesAgain(name: BlobName, bytes: Buffer, signal: AbortSignal): Promise<boolean> {
    const { s3 } = await this.loaded();
    const again = { ...this.placeOf(name), ...this.condition, Body: bytes };
    try {
      await this.send(new s3.PutObjectCommand(again), signal);
      return false;
    } catch (error) {
      const { status } = failureOf(error);
      if (status === 412) return true;
      throw unavailable(error, this.options.bucket, PUT);
    }
  }

  private async checkLifecycle(): Promise<StoreWarning[]> {
    const { bucket, prefix } = this.options;
    const { s3 } = await this.loaded();
    try {
      const found = await this.send(
        new s3.GetBucketLifecycleConfigurationCommand({ Bucket: bucket }),
      );
      const { Rules = [] } = found as { readonly Rules?: Parameters<typeof lifecycleWarnings>[0] };
      return lifecycleWarnings(Rules, bucket, prefix);
    } catch (error) {
      const { name, status } = failureOf(error);
      if (name === 'NoSuchLifecycleConfiguration') return lifecycleWarnings([], bucket, prefix);
      return [
        {
          code: 'blobs_lifecycle_not_checked',
          message: `The lifecycle rules of the bucket ${bucket} were not checked (${name}${status === undefined ? '' : `, status ${status}`}). Grant s3:GetLifecycleConfiguration, or make sure that rules expire what is below ${prefix}.`,
        },
      ];
    }
  }
}

/**
 * Whether the object may be there already. 412: it is. 409: another request has stored it at the same time. NoSuchUpload:
 * an earlier copy of the request has completed the upload.
 */
function isThere(error: unknown): boolean {
  const { name, status } = failureOf(error);
  return status === 412 || status === 409 || name === 'NoSuchUpload';
}
