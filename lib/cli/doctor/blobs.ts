import { fileURLToPath } from 'node:url';
import { fileBlobs } from '../../blobs/file/index.js';
import { s3Blobs } from '../../blobs/s3/s3-blobs.js';
import { s3ClientOfEnvironment } from '../../blobs/s3/s3-client.js';
import type { Finding } from '../../core/store/diagnosis/finding.js';
import { postgresBlobs } from '../../stores/postgres/index.js';
import { ServerAddress } from '../servers/server-address.js';

/** The options of `postgresBlobs` that a URL does not have. */
export interface BlobTable {
  readonly schema?: string | undefined;
  readonly table?: string | undefined;
  readonly preparedStatements: boolean;
}

/** Checks of a blob store, and what hides the password of its URL in them. */
export interface BlobChecks {
  readonly findings: AsyncIterable<Finding>;
  readonly address?: ServerAddress;
}

/** @returns `undefined` if the URL names no blob store. */
export function checksOfBlobs(url: string, table: BlobTable): BlobChecks | undefined {
  if (/^postgres(?:ql)?:/i.test(url)) {
    const address = new ServerAddress(url, 5432);
    return { findings: postgresBlobs({ url, ...table }).diagnose(), address };
  }
  if (!URL.canParse(url)) return undefined;
  const { protocol, hostname: bucket, pathname } = new URL(url);
  if (protocol === 'file:') {
    return { findings: fileBlobs({ directory: fileURLToPath(url) }).diagnose() };
  }
  const isBucket = protocol === 's3:' && bucket !== '';
  return isBucket ? { findings: diagnoseBucket(bucket, pathname.slice(1)) } : undefined;
}

/** @param prefix - empty: the default. */
async function* diagnoseBucket(bucket: string, prefix: string): AsyncGenerator<Finding> {
  const client = await s3ClientOfEnvironment();
  try {
    const own = prefix === '' ? {} : { prefix: prefix.endsWith('/') ? prefix : `${prefix}/` };
    yield* s3Blobs({ client, bucket, ...own }).diagnose();
  } finally {
    client.destroy();
  }
}
