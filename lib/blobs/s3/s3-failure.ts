import { BlobUnavailableError } from '../../core/payload/blob-store.js';

/** What S3 said, as far as it said something. */
export interface S3Failure {
  /** Such as `NoSuchKey`, or that of a network error. */
  readonly name: string;
  /** Of HTTP; `undefined` without a response. */
  readonly status: number | undefined;
}

/** Structural: the class belongs to the client's copy of the SDK. */
interface SdkError {
  readonly name?: unknown;
  readonly code?: unknown;
  readonly $metadata?: { readonly httpStatusCode?: unknown };
}

export function failureOf(error: unknown): S3Failure {
  const { name, code, $metadata } = (error ?? {}) as SdkError;
  const status = $metadata?.httpStatusCode;
  const text = [name === 'Error' ? code : name, code, name].find(
    (each) => typeof each === 'string',
  );
  return {
    name: typeof text === 'string' ? text : 'unknown',
    status: typeof status === 'number' ? status : undefined,
  };
}

/** A name that is no missing right: the credentials themselves are refused. */
const NOT_ACCEPTED =
  /^(?:InvalidAccessKeyId|SignatureDoesNotMatch|RequestTimeTooSkewed|ExpiredToken|InvalidToken|CredentialsProviderError)/;

/** @param rights - what the command needs, as IAM names it. */
export function unavailable(error: unknown, bucket: string, rights: string): BlobUnavailableError {
  const { name, status } = failureOf(error);
  const cause = { cause: error };
  if (NOT_ACCEPTED.test(name)) {
    return new BlobUnavailableError(
      `s3Blobs: S3 does not accept the credentials (${name}).`,
      cause,
    );
  }
  if (status === 403) {
    return new BlobUnavailableError(
      `s3Blobs: access to the bucket ${bucket} is denied. Grant ${rights} on the prefix.`,
      cause,
    );
  }
  const answer = status === undefined ? name : `${name}, status ${status}`;
  return new BlobUnavailableError(
    `s3Blobs: S3 did not do what was asked of it (${answer}).`,
    cause,
  );
}
