import { connect } from 'node:net';

const TIMEOUT_MS = 500;

/** Whether a server on a port of 127.0.0.1 answers `request` at once with what matches `expected`. */
export function responses(port: number, request: Buffer, expected: RegExp): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: '127.0.0.1' });
    const response = (isExpected: boolean) => {
      socket.destroy();
      resolve(isExpected);
    };
    let received = '';
    socket.setTimeout(TIMEOUT_MS, () => response(false));
    socket.once('error', () => response(false));
    socket.once('close', () => resolve(false));
    socket.once('connect', () => socket.write(request));
    socket.on('data', (data) => {
      received += data.toString('latin1');
      if (expected.test(received)) response(true);
    });
  });
}
