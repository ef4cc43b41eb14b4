import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { describe, expect, it } from '@jest/globals';
import { ResponsePatch, type ResponseRecorder } from '../../support/internals/http.js';

/** Notes the calls that reach it. */
function recorderOf(calls: string[]): ResponseRecorder {
  return {
    isHeadersSent: true,
    isEnded: true,
    needsDrain: true,
    writeHead: () => void calls.push('writeHead'),
    flushHeaders: () => void calls.push('flushHeaders'),
    write: () => calls.push('write') > 0,
    end: () => void calls.push('end'),
  };
}

const newResponse = () => new ServerResponse(new IncomingMessage(new Socket()));

/** What a program sees of a response that looks at it. */
function stateOf(response: ServerResponse) {
  const { headersSent, writableEnded, writableNeedDrain } = response;
  return { headersSent, writableEnded, writableNeedDrain };
}

const UNSENT = { headersSent: false, writableEnded: false, writableNeedDrain: false };
const RECORDED = { headersSent: true, writableEnded: true, writableNeedDrain: true };

function callAll(response: ServerResponse): void {
  response.writeHead(201);
  response.flushHeaders();
  response.write('text');
  response.end();
}

const ALL = ['writeHead', 'flushHeaders', 'write', 'end'];

describe.each([
  ['on a prototype', false],
  ['on the response itself', true],
])('The patch of a response, %s,', (_place, isOwn) => {
  const patched = (response: ServerResponse, calls: string[] = []) =>
    new ResponsePatch(response, recorderOf(calls), isOwn);

  it('passes calls to its recorder, and on to the response after its removal', () => {
    const [response, calls] = [newResponse(), [] as string[]];
    const patch = patched(response, calls);
    callAll(response);
    expect([calls, stateOf(response)]).toEqual([ALL, RECORDED]);
    patch.remove();
    expect(stateOf(response)).toEqual(UNSENT);
    callAll(response);
    expect(calls).toEqual(ALL);
    expect(response.writableEnded).toBe(true);
  });

  it('replaces methods of middleware, calls them as originals, and restores them', () => {
    const [response, calls] = [newResponse(), [] as string[]];
    const ofMiddleware = function (this: ServerResponse) {
      calls.push(`middleware’s end on ${this === response ? 'the response' : 'another object'}`);
      return this;
    };
    response.end = ofMiddleware;
    const patch = patched(response, calls);
    response.end();
    expect(calls.splice(0)).toEqual(['end']);
    Reflect.apply(patch.original('end'), response, []);
    expect(calls.splice(0)).toEqual(['middleware’s end on the response']);
    patch.remove();
    expect(Object.getOwnPropertyDescriptor(response, 'end')?.value).toBe(ofMiddleware);
  });

  it('is reached, and left, through a method that other code wraps while it is active', () => {
    const [response, calls] = [newResponse(), [] as string[]];
    const patch = patched(response, calls);
    const found = response.end.bind(response) as () => ServerResponse;
    response.end = () => {
      calls.push('wrapper');
      return found();
    };
    response.end();
    patch.remove();
    response.end();
    expect(calls).toEqual(['wrapper', 'end', 'wrapper']);
    expect(response.writableEnded).toBe(true);
  });

  it('does not mistake its own method, restored by other code, for a foreign one', () => {
    const response = newResponse();
    const first = patched(response);
    // As middleware does that patches the patched method, and restores it when it has finished.
    const found = Reflect.get(response, 'end');
    response.end = () => response;
    first.remove();
    response.end = found;
    const second = patched(response);
    expect(second.original('end')).toBe(Reflect.get(ServerResponse.prototype, 'end'));
    second.remove();
    expect(Object.hasOwn(response, 'end')).toBe(false);
  });

  it('leaves a response usable that cannot be patched', () => {
    const [response, calls] = [newResponse(), [] as string[]];
    Object.defineProperty(response, 'end', { value: () => calls.push('read-only end') });
    expect(() => patched(response, calls)).toThrow(TypeError);
    response.setHeader('X-Own', 'set');
    response.end();
    expect([calls, response.getHeader('x-own')]).toEqual([['read-only end'], 'set']);
    expect(stateOf(response)).toEqual(UNSENT);
  });

  it('is not part of what is copied from the response', () => {
    const response = newResponse();
    const before = Reflect.ownKeys(Object.assign({}, response));
    patched(response).remove();
    expect(Reflect.ownKeys(Object.assign({}, response))).toEqual(before);
  });

  it('finds the methods below it when its prototype is wrapped, before and after', () => {
    const [response, calls] = [newResponse(), [] as string[]];
    // As tracers do: in front of whatever the response inherits from.
    const wrap = (name: string) => {
      const inherited = Object.getPrototypeOf(response) as ServerResponse;
      const end: unknown = Reflect.get(inherited, 'end');
      const value = function (this: ServerResponse, ...args: unknown[]) {
        calls.push(name);
        return Reflect.apply(end as () => unknown, this, args);
      };
      Object.setPrototypeOf(response, Object.create(inherited, { end: { value } }) as object);
    };
    wrap('inner');
    const patch = patched(response, calls);
    if (!isOwn) wrap('outer');
    response.end();
    patch.remove();
    response.end();
    const outer = isOwn ? [] : ['outer'];
    expect(calls).toEqual([...outer, 'end', ...outer, 'inner']);
    expect(response.writableEnded).toBe(true);
  });
});

describe('The prototype of a patched response', () => {
  const patched = (calls: string[] = []) => {
    const response = newResponse();
    return { response, patch: new ResponsePatch(response, recorderOf(calls), false) };
  };

  it('is one for all responses of a class, and keeps its place', () => {
    const [one, other] = [patched(), patched()];
    const prototype: unknown = Object.getPrototypeOf(one.response);
    expect(prototype).not.toBe(ServerResponse.prototype);
    expect(Object.getPrototypeOf(other.response)).toBe(prototype);
    one.patch.remove();
    expect(Object.getPrototypeOf(one.response)).toBe(prototype);
    // A second patch finds it.
    const again = new ResponsePatch(one.response, recorderOf([]), false);
    expect(Object.getPrototypeOf(one.response)).toBe(prototype);
    expect(again.original('end')).toBe(Reflect.get(ServerResponse.prototype, 'end'));
  });

  it('passes on the calls of an object that was never patched', () => {
    const response = newResponse();
    Object.setPrototypeOf(response, Object.getPrototypeOf(patched().response) as object);
    expect(stateOf(response)).toEqual(UNSENT);
    response.setHeader('X-Own', 'set').end();
    expect([response.getHeader('x-own'), response.writableEnded]).toEqual(['set', true]);
  });

  it('sets no property of a name on the response', () => {
    const { response } = patched();
    expect(Object.getOwnPropertyNames(response)).toEqual(Object.getOwnPropertyNames(newResponse()));
  });
});
