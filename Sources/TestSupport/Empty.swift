import Takeset
