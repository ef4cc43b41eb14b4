import { STATUS_HEADER } from '../transports/http/http-options.js';
import type { HttpRoute } from '../transports/http/http-route.js';
import type { Headers } from './open-api.js';

/** The fields that the layer adds to the operation's own answers. */
export function answerHeaders({ options, protocol }: HttpRoute): Headers {
  const headers: Headers = {};
  if (options.storeBody) {
    headers[options.replayHeader] = {
      description: 'Only on a replay: this is the stored answer to the first request with the key.',
      schema: { type: 'string', enum: ['true'] },
    };
  }
  if (protocol.onStoreUnavailable === 'execute') {
    headers[STATUS_HEADER] = {
      description:
        'Only where the request ran without protection, because its outcome could not be stored: a retry may run again.',
      schema: { type: 'string', enum: ['unprotected'] },
    };
  }
  return headers;
}
