import type { ExecutionContext } from '@nestjs/common';

/** What came in, whichever way: a message, a WebSocket's message, the arguments of a GraphQL field, the body of a request. */
export function payloadOf(context: ExecutionContext): unknown {
  switch (context.getType<string>()) {
    case 'rpc':
      return context.switchToRpc().getData();
    case 'ws':
      return context.switchToWs().getData();
    case 'graphql':
      return context.getArgByIndex(1);
    case 'http':
      return context.switchToHttp().getRequest<{ readonly body?: unknown }>().body;
    default:
      return undefined;
  }
}
