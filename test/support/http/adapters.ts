import { createRequire } from 'node:module';
import type { INestApplication } from '@nestjs/common';
import type { Platform } from './combinations.js';
import { RawResponse } from './wire/raw-response.js';

/** A request as a serverless platform, or a test without a socket, hands it over. */
export interface AdaptedRequest {
  readonly path: string;
  /** Names in lower case; a list for a field that was sent more than once. */
  readonly headers: Readonly<Record<string, string | readonly string[]>>;
  readonly body?: string;
}

export type SendAdapted = (request: AdaptedRequest) => Promise<RawResponse>;

export interface Adapter {
  readonly name: string;
  readonly platform: Platform;
  /** Whether it hands over each line of a repeated field, joins them, or drops all but one. */
  readonly repeats: 'lines' | 'joined' | 'dropped';
  /** Its `json()` gives problem documents another type, and its `send()` keeps the body from Node's methods. */
  readonly isMock?: boolean;
  readonly adapt: (nest: INestApplication) => SendAdapted;
}

// By require: their declarations want those of other packages.
const load = createRequire(import.meta.url) as (name: string) => any;

interface LambdaResponse {
  readonly statusCode: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly multiValueHeaders?: Readonly<Record<string, readonly string[]>>;
  readonly cookies?: readonly string[];
  readonly body?: string;
  readonly isBase64Encoded?: boolean;
}

type Lambda = (event: object) => Promise<LambdaResponse>;

const BINARY = ['application/pdf', 'application/octet-stream'];

export const adapters: readonly Adapter[] = [
  ...(['express', 'fastify'] as const).map((platform) => ({
    name: 'serverless-http',
    platform,
    repeats: 'dropped' as const,
    adapt: (nest: INestApplication) => {
      const lambda = load('serverless-http')(instanceOf(nest), { binary: BINARY });
      return throughLambda((event) => lambda(event, {}));
    },
  })),
  ...(['express', 'fastify'] as const).map((platform) => ({
    name: '@h4ad/serverless-adapter',
    platform,
    repeats: 'joined' as const,
    adapt: (nest: INestApplication) => {
      const { ServerlessAdapter } = load('@h4ad/serverless-adapter');
      const { ExpressFramework } = load('@h4ad/serverless-adapter/frameworks/express');
      const { FastifyFramework } = load('@h4ad/serverless-adapter/frameworks/fastify');
      const { DefaultHandler } = load('@h4ad/serverless-adapter/handlers/default');
      const { PromiseResolver } = load('@h4ad/serverless-adapter/resolvers/promise');
      const { ApiGatewayV1Adapter } = load('@h4ad/serverless-adapter/adapters/aws');
      const lambda = ServerlessAdapter.new(instanceOf(nest))
        .setFramework(platform === 'express' ? new ExpressFramework() : new FastifyFramework())
        .setHandler(new DefaultHandler())
        .setResolver(new PromiseResolver())
        .setBinarySettings({ contentTypes: BINARY })
        .addAdapter(new ApiGatewayV1Adapter())
        .build();
      return throughLambda((event) => lambda(event, {}, () => undefined));
    },
  })),
  ...['@codegenie/serverless-express', '@vendia/serverless-express'].map((name) => ({
    name,
    platform: 'express' as const,
    repeats: 'joined' as const,
    adapt: (nest: INestApplication) => {
      const { configure } = load(name);
      const app = instanceOf(nest);
      const lambda = configure({ app, binarySettings: { contentTypes: BINARY } });
      return throughLambda((event) => lambda(event, {}, () => undefined));
    },
  })),
  {
    name: '@fastify/aws-lambda',
    platform: 'fastify',
    repeats: 'lines',
    adapt: (nest) => {
      const lambda = load('@fastify/aws-lambda')(instanceOf(nest), {
        binaryMimeTypes: BINARY,
        decorateRequest: false,
      });
      return throughLambda((event) => lambda(event, {}));
    },
  },
  {
    name: 'light-my-request',
    platform: 'fastify',
    repeats: 'lines',
    adapt: (nest) => async (request) => {
      const { path: url, headers, body: payload } = request;
      const response = await instanceOf(nest).inject({ method: 'POST', url, headers, payload });
      return responseOf(response.statusCode, response.headers, response.rawPayload);
    },
  },
  {
    name: 'node-mocks-http',
    platform: 'express',
    repeats: 'lines',
    isMock: true,
    adapt: (nest) => (sent) => mocked(instanceOf(nest), sent),
  },
];

function instanceOf(nest: INestApplication): any {
  return nest.getHttpAdapter().getInstance();
}

/** Through an event of API Gateway, format 1.0, which tells repeated fields apart. */
function throughLambda(lambda: Lambda): SendAdapted {
  return async ({ path, headers, body }) => {
    const lists = Object.entries(headers).map(([name, value]) => [name, [value].flat()] as const);
    const response = await lambda({
      resource: '/{proxy+}',
      path,
      httpMethod: 'POST',
      headers: Object.fromEntries(lists.map(([name, list]) => [name, list.at(-1)])),
      multiValueHeaders: Object.fromEntries(lists),
      queryStringParameters: null,
      multiValueQueryStringParameters: null,
      requestContext: { identity: { sourceIp: '192.0.2.1' }, requestId: 'r', stage: 'test' },
      body: body ?? '',
      isBase64Encoded: false,
    });
    const bytes = Buffer.from(response.body ?? '', response.isBase64Encoded ? 'base64' : 'utf8');
    return responseOf(
      response.statusCode,
      { ...response.headers, ...response.multiValueHeaders },
      bytes,
    );
  };
}

/** Express on objects without a socket. */
function mocked(express: any, { path, headers, body }: AdaptedRequest): Promise<RawResponse> {
  const { createRequest, createResponse } = load('node-mocks-http');
  const { EventEmitter } = load('node:events');
  // As a test gives it: parsed, because there is no stream to parse.
  const parsed = body === undefined ? {} : JSON.parse(body);
  const request = createRequest({ method: 'POST', url: path, headers, body: parsed });
  const response = createResponse({ req: request, eventEmitter: EventEmitter });
  return new Promise((resolve) => {
    response.on('end', () => {
      const bytes = Buffer.concat([response._getBuffer(), Buffer.from(response._getData())]);
      resolve(responseOf(response.statusCode, response.getHeaders(), bytes));
    });
    express(request, response);
  });
}

function responseOf(
  status: number,
  headers: Readonly<Record<string, unknown>>,
  body: Buffer,
): RawResponse {
  const lines = Object.entries(headers).flatMap(([name, value]) =>
    [value].flat().map((line) => [name, String(line)] as const),
  );
  return new RawResponse(status, lines, body);
}
