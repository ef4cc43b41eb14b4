export { fileBlobs, type FileBlobsOptions } from './file-blobs.js';
