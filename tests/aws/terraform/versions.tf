# `terraform -chdir=tests/aws/terraform init` brings the provider that `make test-aws` asks. Nothing is ever applied here.
terraform {
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = "5.100.0"
    }
  }
}
