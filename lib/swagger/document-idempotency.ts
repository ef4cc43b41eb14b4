import type { INestApplicationContext } from '@nestjs/common';
import type { OpenAPIObject } from '@nestjs/swagger';
import { isUnprotectedMethod } from '../transports/common/ask-option.js';
import type { HttpRoute } from '../transports/http/http-route.js';
import { mergeParameter, mergeResponse, type Operation, type PathItem } from './merge.js';
import {
  describeRetries,
  keyParameter,
  PROBLEM_SCHEMA,
  PROBLEM_SCHEMA_NAME,
  problemResponses,
  responseHeaders,
} from './route-documentation.js';
import { createMarked, MARK } from './route-marks.js';

type MarkedOperation = Operation & { [MARK]: unknown };

/**
 * Documents what `@Idempotent()` adds to routes: the key's header, the replay's marker, and the problem responses. What
 * an application documents itself takes precedence.
 * @param create - creates the document synchronously; called once.
 * @returns a copy of the document with the protected operations completed.
 * @throws {@link IdempotencyOptionsError} for a route that could not be protected.
 * @example
 * ```ts
 * const document = documentIdempotency(app, () => SwaggerModule.createDocument(app, config));
 * ```
 */
export function documentIdempotency(
  app: INestApplicationContext,
  create: () => OpenAPIObject,
): OpenAPIObject {
  const { document, routes } = createMarked(app, create);
  const documented = new Set<HttpRoute>();

  const completed = (items: Readonly<Record<string, PathItem>>) =>
    mapValues(items, (item) =>
      mapValues(item, (value: unknown, method) => {
        if (!isMarked(value)) return value;
        const { [MARK]: mark, ...operation } = value;
        const route = routes.get(mark);
        if (route === undefined || isUnprotectedMethod(method.toUpperCase())) return operation;
        documented.add(route);
        return completeOperation(operation, route);
      }),
    );

  const paths = completed(document.paths);
  const { webhooks } = document as { webhooks?: Record<string, PathItem> };
  const copy = webhooks === undefined ? { paths } : { paths, webhooks: completed(webhooks) };
  if (documented.size === 0) return { ...document, ...copy };
  const schemas = { [PROBLEM_SCHEMA_NAME]: PROBLEM_SCHEMA, ...document.components?.schemas };
  return { ...document, ...copy, components: { ...document.components, schemas } };
}

function isMarked(value: unknown): value is MarkedOperation {
  return typeof value === 'object' && value !== null && MARK in value;
}

function mapValues<Item extends object>(
  item: Item,
  change: (value: Item[keyof Item], name: string) => unknown,
): Item {
  const entries = Object.entries(item) as [string, Item[keyof Item]][];
  return Object.fromEntries(entries.map(([name, value]) => [name, change(value, name)])) as Item;
}

/** Statuses of responses that may be replayed: 2xx and 3xx, and their ranges. */
const SUCCESS = /^[23](\d\d|XX)$/;

function completeOperation(operation: Operation, route: HttpRoute): Operation {
  const responses = { ...operation.responses };
  const headers = responseHeaders(route);
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
    const paragraphs = [operation.description ?? '', describeRetries(route)];
    return { ...completed, description: paragraphs.filter((text) => text !== '').join('\n\n') };
  }
  return { ...completed, parameters: mergeParameter(operation.parameters ?? [], parameter) };
}
