import { ApiProperty } from '@nestjs/swagger';
import { IsInt, Min } from 'class-validator';

export class CreateRefundDto {
  @ApiProperty({
    type: 'integer',
    minimum: 1,
    example: 1000,
    description: "In minor units of the payment's currency.",
  })
  @IsInt()
  @Min(1)
  amount!: number;
}
