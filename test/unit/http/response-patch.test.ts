import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { describe, expect, it } from '@jest/globals';
import {
  ResponsePatch,
  type ResponseRecorder,
} from '../../support/internals/transports/http/response.js';

const recorder: ResponseRecorder = {
  isHeadersSent: false,
  isEnded: false,
  needsDrain: false,
  writeHead: () => undefined,
  flushHeaders: () => undefined,
  write: () => true,
  end: () => undefined,
};

describe('The patch of a response', () => {
  it('does not mistake its own method, restored by other code, for a foreign one', () => {
    const response = new ServerResponse(new IncomingMessage(new Socket()));
    const { prototype } = ServerResponse;
    const first = new ResponsePatch(response, recorder);
    // As middleware does that patches the patched method, and restores it when it has finished.
    const found = Reflect.get(response, 'end');
    response.end = () => response;
    first.remove();
    response.end = found;
    const second = new ResponsePatch(response, recorder);
    expect(second.original('end')).toBe(Reflect.get(prototype, 'end'));
    second.remove();
    expect(Reflect.get(response, 'end')).toBe(Reflect.get(prototype, 'end'));
  });
});
