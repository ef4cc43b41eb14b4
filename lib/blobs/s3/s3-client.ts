import type * as ClientS3 from '@aws-sdk/client-s3';
import type * as LibStorage from '@aws-sdk/lib-storage';
import { missingPeer } from '../../core/util/missing-peer.js';
import { requirePeer } from '../../core/util/peers.js';

/**
 * What the store requires of a client: an `S3Client` of `@aws-sdk/client-s3`. Structural, so that the client may come from
 * another copy of the package.
 */
export interface S3BlobClient {
  readonly config: object;
  send(command: never, options?: { abortSignal?: AbortSignal }): Promise<unknown>;
}

/** The classes of the SDK. */
export interface Sdk {
  readonly s3: typeof ClientS3;
  readonly Upload: typeof LibStorage.Upload;
}

/** @throws {@link IdempotencyOptionsError} when a package is not installed. */
export async function loadSdk(): Promise<Sdk> {
  const s3 = withNames(await loadClientS3(), 'S3Client');
  const { Upload } = withNames(await loadLibStorage(), 'Upload');
  return { s3, Upload };
}

/** With region, credentials and endpoint of the environment, as the AWS CLI has them. */
export async function s3ClientOfEnvironment(): Promise<S3BlobClient & { destroy(): void }> {
  const { S3Client } = withNames(await loadClientS3(), 'S3Client');
  return new S3Client({});
}

async function loadClientS3(): Promise<typeof ClientS3> {
  const name = '@aws-sdk/client-s3';
  try {
    return (requirePeer(name) ?? (await import('@aws-sdk/client-s3'))) as typeof ClientS3;
  } catch (error) {
    throw missingPeer(error, name, 's3Blobs sends the commands of');
  }
}

async function loadLibStorage(): Promise<typeof LibStorage> {
  const name = '@aws-sdk/lib-storage';
  try {
    return (requirePeer(name) ?? (await import('@aws-sdk/lib-storage'))) as typeof LibStorage;
  } catch (error) {
    throw missingPeer(error, name, 's3Blobs uploads with');
  }
}

/** Which of its names an ES module can import depends on its version. */
function withNames<Module extends object>(module: Module, name: string): Module {
  return name in module ? module : (module as { readonly default: Module }).default;
}
