export {
  ALGORITHMS,
  decodeContent,
  decodeFrame,
  decodePointer,
  encodeContent,
  encodeHead,
  encodePointer,
  FRAME_HEADER,
  type Algorithm,
  type BlobPointer,
  type FrameHead,
} from '../../../lib/core/payload/frame.js';
export {
  compress,
  dictionaryOf,
  inflate,
  isAvailable,
  NO_DICTIONARIES,
} from '../../../lib/core/payload/compression.js';
export {
  OutcomeTransform,
  UnreadableOutcome,
  type OriginBinding,
  type OutcomeBinding,
} from '../../../lib/core/payload/outcome-transform.js';
export { DEFAULT_OFFLOAD } from '../../../lib/core/payload/pack-options.js';
export { checkSecretKeys } from '../../../lib/core/payload/secret-keys.js';
export {
  openSegments,
  openStream,
  SEGMENT_BYTES,
  sealedSegments,
  sealedStream,
} from '../../../lib/core/payload/segments.js';
export { UploadPlaces } from '../../../lib/core/payload/upload-places.js';
