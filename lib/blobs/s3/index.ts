export { s3Blobs, type S3BlobsOptions } from './s3-blobs.js';
export type { S3BlobClient } from './s3-client.js';
