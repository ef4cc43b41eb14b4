const CR = 0x0d;
const LINE_END = 2;

/** Where a value ends, or how many bytes are needed before parsing again. */
type Scan = { readonly end: number } | { readonly needed: number };

/** Splits a stream of RESP2 or RESP3 into its values, requests and replies alike. */
export class RespReader {
  private chunks: Buffer[] = [];
  private length = 0;
  private needed = 0;

  /** @returns the complete values, each as its bytes. */
  read(chunk: Buffer): Buffer[] {
    this.chunks.push(chunk);
    this.length += chunk.length;
    // A value of megabytes arrives in many chunks, which are joined once.
    if (this.length < this.needed) return [];
    const bytes = this.chunks.length === 1 ? chunk : Buffer.concat(this.chunks);
    const values: Buffer[] = [];
    let start = 0;
    this.needed = 0;
    while (start < bytes.length) {
      const scan = scanValue(bytes, start);
      if ('needed' in scan) {
        this.needed = scan.needed - start;
        break;
      }
      values.push(bytes.subarray(start, scan.end));
      start = scan.end;
    }
    const rest = bytes.subarray(start);
    this.chunks = rest.length === 0 ? [] : [rest];
    this.length = rest.length;
    return values;
  }
}

/** The strings of a request, which is an array of strings. */
export function wordsOf(request: Buffer): Buffer[] {
  const words: Buffer[] = [];
  let at = lineEnd(request, 0) + LINE_END;
  while (at < request.length) {
    const start = lineEnd(request, at) + LINE_END;
    const end = start + numberAt(request, at);
    words.push(request.subarray(start, end));
    at = end + LINE_END;
  }
  return words;
}

function scanValue(bytes: Buffer, start: number): Scan {
  const end = lineEnd(bytes, start);
  if (end < 0) return { needed: bytes.length + 1 };
  const next = end + LINE_END;
  switch (String.fromCharCode(bytes[start]!)) {
    case '$':
    case '!':
    case '=': {
      const size = numberAt(bytes, start);
      const last = size < 0 ? next : next + size + LINE_END;
      return last > bytes.length ? { needed: last } : { end: last };
    }
    case '*':
    case '~':
    case '>':
      return scanValues(bytes, next, numberAt(bytes, start));
    case '%':
      return scanValues(bytes, next, numberAt(bytes, start) * 2);
    default:
      return next > bytes.length ? { needed: next } : { end: next };
  }
}

function scanValues(bytes: Buffer, start: number, count: number): Scan {
  let end = start;
  for (let value = 0; value < count; value += 1) {
    const scan = scanValue(bytes, end);
    if ('needed' in scan) return scan;
    end = scan.end;
  }
  return end > bytes.length ? { needed: end } : { end };
}

function lineEnd(bytes: Buffer, start: number): number {
  return bytes.indexOf(CR, start + 1);
}

/** The number between the type's mark and the end of the line. */
function numberAt(bytes: Buffer, start: number): number {
  return Number(bytes.toString('latin1', start + 1, lineEnd(bytes, start)));
}
