import type { HttpRoute } from '../transports/http/http-route.js';
import { answerHeaders } from './answer-headers.js';
import { keyParameter } from './key-parameter.js';
import { mergeParameter, mergeResponse } from './merge.js';
import type { Operation } from './open-api.js';
import { problemResponses } from './problem-responses.js';
import { describeRepetitions } from './route-text.js';

/** Statuses of answers that may be replayed: 2xx and 3xx, and the ranges of them. */
const SUCCESS = /^[23](\d\d|XX)$/;

/** The operation with what the layer adds to it; what is documented already wins. */
export function completeOperation(operation: Operation, route: HttpRoute): Operation {
  const responses = { ...operation.responses };
  const headers = answerHeaders(route);
  if (Object.keys(headers).length > 0) {
    for (const [status, response] of Object.entries(responses)) {
      if (response === undefined || !SUCCESS.test(status)) continue;
      responses[status] = mergeResponse({ description: '', headers }, response);
    }
  }
  for (const [status, problems] of Object.entries(problemResponses(route))) {
    responses[status] = mergeResponse(problems, responses[status]);
  }
  const completed = { ...operation, responses };
  const parameter = keyParameter(route);
  if (parameter === undefined) {
    const paragraphs = [operation.description ?? '', describeRepetitions(route)];
    return { ...completed, description: paragraphs.filter((text) => text !== '').join('\n\n') };
  }
  return { ...completed, parameters: mergeParameter(operation.parameters ?? [], parameter) };
}
