import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { describe, expect, it } from '@jest/globals';
import {
  ResponseShadow,
  type ResponseRecorder,
} from '../../../lib/transports/http/recording/response-shadow.js';

const recorder: ResponseRecorder = {
  isHeadersSent: false,
  isEnded: false,
  needsDrain: false,
  writeHead: () => undefined,
  flushHeaders: () => undefined,
  write: () => true,
  end: () => undefined,
};

describe('The shadow of a response', () => {
  it('does not take its own method, which somebody has put back, for one of theirs', () => {
    const response = new ServerResponse(new IncomingMessage(new Socket()));
    const { prototype } = ServerResponse;
    const first = new ResponseShadow(response, recorder);
    // As middleware does that lays its own over what it has found, and puts that back when it is through.
    const found = Reflect.get(response, 'end');
    response.end = () => response;
    first.remove();
    response.end = found;
    const second = new ResponseShadow(response, recorder);
    expect(second.under('end')).toBe(Reflect.get(prototype, 'end'));
    second.remove();
    expect(Reflect.get(response, 'end')).toBe(Reflect.get(prototype, 'end'));
  });
});
