import type { OutgoingHttpHeader, OutgoingHttpHeaders } from 'node:http';

/** `writeHead`'s fields: by name, flat (name, value, name, value), or in pairs. */
export type HeaderFields =
  OutgoingHttpHeaders | readonly (OutgoingHttpHeader | readonly [string, string])[];

export type Chunk = Uint8Array | string;

/** Takes the calls that a shadowed response receives. */
export interface ResponseRecorder {
  readonly isHeadersSent: boolean;
  readonly isEnded: boolean;
  readonly needsDrain: boolean;
  writeHead(status: number, reason: string | undefined, fields: HeaderFields | undefined): void;
  flushHeaders(): void;
  write(
    chunk: Chunk,
    encoding: BufferEncoding | undefined,
    callback: ((error?: Error | null) => void) | undefined,
  ): boolean;
  end(
    chunk: Chunk | undefined,
    encoding: BufferEncoding | undefined,
    callback: (() => void) | undefined,
  ): void;
}
