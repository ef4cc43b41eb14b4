import {
  type CanActivate,
  type ExecutionContext,
  Injectable,
  UnauthorizedException,
} from '@nestjs/common';

/** An operator of the demo, by his credentials; a real application has its own sign-on. */
const operators: ReadonlyMap<string, string> = new Map([['mia:mia-demo-password', 'mia']]);

interface OperatorsRequest {
  readonly headers: { readonly authorization?: string };
  operator?: string;
}

/** Both platforms have it. */
interface AnyResponse {
  header(name: string, value: string): unknown;
}

/** Asks the browser for the name and the password of an operator. */
@Injectable()
export class OperatorGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    const request = context.switchToHttp().getRequest<OperatorsRequest>();
    const credentials = /^Basic (.+)$/i.exec(request.headers.authorization ?? '')?.[1] ?? '';
    const operator = operators.get(Buffer.from(credentials, 'base64').toString());
    if (operator === undefined) {
      const response = context.switchToHttp().getResponse<AnyResponse>();
      response.header('WWW-Authenticate', 'Basic realm="operators"');
      throw new UnauthorizedException('Unknown operator');
    }
    request.operator = operator;
    return true;
  }
}

/** Whom {@link OperatorGuard} has let in. */
export function operatorOf(context: ExecutionContext): string {
  return context.switchToHttp().getRequest<OperatorsRequest>().operator ?? '';
}
