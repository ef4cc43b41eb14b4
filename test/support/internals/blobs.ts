export { FILE_BLOBS, spaceWarnings } from '../../../lib/blobs/file/file-blobs.js';
export { S3_BLOBS } from '../../../lib/blobs/s3/s3-blobs.js';
