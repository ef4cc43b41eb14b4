/** The least unit of AMQP 0-9-1. */
export interface Frame {
  readonly type: number;
  /** 0 is the connection itself. */
  readonly channel: number;
  readonly payload: Buffer;
}

/** Type, channel and length of the payload. */
const HEAD_BYTES = 7;

/** After the payload. */
const END_BYTES = 1;

/** Cuts one direction of a connection into its frames. */
export class FrameReader {
  private rest: Buffer = Buffer.alloc(0);

  /** @param skip - bytes before the first frame: what a client begins with says which protocol it speaks. */
  constructor(private skip = 0) {}

  /** @returns the frames that are complete now. */
  read(chunk: Buffer): Frame[] {
    const bytes = this.rest.length === 0 ? chunk : Buffer.concat([this.rest, chunk]);
    const frames: Frame[] = [];
    const skipped = Math.min(this.skip, bytes.length);
    this.skip -= skipped;
    let start = skipped;
    while (start + HEAD_BYTES <= bytes.length) {
      const end = start + HEAD_BYTES + bytes.readUInt32BE(start + 3);
      if (end + END_BYTES > bytes.length) break;
      frames.push({
        type: bytes.readUInt8(start),
        channel: bytes.readUInt16BE(start + 1),
        payload: bytes.subarray(start + HEAD_BYTES, end),
      });
      start = end + END_BYTES;
    }
    this.rest = bytes.subarray(start);
    return frames;
  }
}
