"""Stamps: letters get a number, once each. A product that another package brings."""
